"""The signal behind SyntheticVolumes."""
