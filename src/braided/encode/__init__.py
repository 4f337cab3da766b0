"""From raw cells to numbers: kinds of columns, categories, and what happens to what does not fit."""
