"""One reader for each kind of source: each hands on raw cells, or numbers, with the line or row of each record."""
