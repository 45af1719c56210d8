"""The Start page: templates with pictures, what was worked on last, volumes to try."""
