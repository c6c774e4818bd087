"""What is done beside the work: lost units, deadlines, retention."""
