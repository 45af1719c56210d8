"""What TrainResNet3D is made of, without the framework that computes: `nodes.tensorflow_keras` is one.

session         the work of the node in one process; each of several `workers` does it on its part
learner         the contract between a framework and everything here
preparation     what is known before the first step: `rows`, `labels`, `normalisation`, where to begin
loop            epochs of steps, on batches that `augmentation` changes
evaluation      figures of a model; `history` is what they decide: best epoch, early stopping, learning rate
checkpoints     all that a training needs to continue exactly
trained_model   the folder that is published
settings        the parameters; `architecture`: the ResNet by arithmetic; `model_file`: a person's own model
rules           what is reported before a run
"""
