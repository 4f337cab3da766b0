"""A service that learns and predicts over HTTP, and loses nothing that it has acknowledged."""
