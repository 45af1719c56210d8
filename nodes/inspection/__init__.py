"""What InspectDataset computes and how it tells it."""
