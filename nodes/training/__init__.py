"""The model, the training loop and its checkpoints: what TrainResNet3D is made of."""
