"""Training the lab model from scratch: text and recall in, a model directory out."""
