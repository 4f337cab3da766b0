"""What is counted while a stream is predicted and learned."""
