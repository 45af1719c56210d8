"""What InspectDataset measures, and the page it writes."""
