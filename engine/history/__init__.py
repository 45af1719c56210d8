"""What is known of runs that were made: one with all about it (`details`), several side by side (`comparison`)."""
