"""`braided run`: models times seeds over one stream, resumable."""
