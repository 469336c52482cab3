"""Use a trained model: evaluate, predict, export."""
