"""Batches that are a function of the number of the step alone, for runs that are killed and go on."""

import torch

EXAMPLES, CLASSES, BATCH, EPOCHS = 60, 3, 8, 4
STEPS = EPOCHS * 8  # 60 examples are 7 batches of 8 and one of 4


def given(step):
    """Logits, labels and index of a step; each example once in an epoch."""
    epoch, place = divmod(step, 8)
    order = torch.randperm(EXAMPLES, generator=torch.Generator().manual_seed(epoch))
    index = order[place * BATCH : (place + 1) * BATCH]
    logits = torch.randn(len(index), CLASSES, generator=torch.Generator().manual_seed(100 + step))
    return logits, index % CLASSES, index
