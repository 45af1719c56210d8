"""CutVolumes: from large volumes to patches of one size, with their labels and places."""
