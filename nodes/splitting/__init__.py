"""What SplitDataset selects."""
