"""What SplitDataset selects, and the columns that it should go by."""
