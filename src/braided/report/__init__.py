"""What a run leaves behind: a table on the screen, pictures, and a page."""
