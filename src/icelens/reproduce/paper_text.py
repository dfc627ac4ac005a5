"""What the paper prints about text: its Table 2, and the training rows it lists for low confidence."""

from __future__ import annotations

# Percent. The first number is of cross entropy (CCE), the second of ICE; BERT-base, cased, one run each.
TABLE2: dict[str, dict[str, tuple[float, float]]] = {
    "cola": {"matthews": (54.76, 57.83)},
    "sst2": {"accuracy": (92.55, 92.20)},
    "mrpc": {"f1": (88.04, 89.54), "accuracy": (82.35, 85.05)},
    "qqp": {"f1": (87.80, 87.85), "accuracy": (90.96, 90.92)},
    "mnli": {"accuracy": (83.83, 83.81), "accuracy_mismatched": (84.31, 84.36)},
    "qnli": {"accuracy": (90.77, 91.14)},
    "rte": {"accuracy": (66.43, 63.90)},
    "wnli": {"accuracy": (50.70, 56.34)},
}

TITLES = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "qqp": "QQP",
    "mnli": "MNLI",
    "qnli": "QNLI",
    "rte": "RTE",
    "wnli": "WNLI",
}

EPOCHS = {"cola": 5, "mrpc": 5, "rte": 5, "wnli": 5, "sst2": 3, "qqp": 3, "mnli": 3, "qnli": 3}

# Rows of train.tsv from 0, in the order of the paper's appendix.
LISTED: dict[str, tuple[int, ...]] = {
    "cola": (390, 5766, 2801, 1522, 8332, 300, 7813, 5904, 4159, 2479,
             3846, 7371, 430, 6795, 1115, 4155, 1367, 7756, 4445, 4015),
    "sst2": (50155, 58416, 59724, 24696, 34494, 54555, 29155, 44610, 66148, 11869,
             55848, 57359, 42232, 15783, 57186, 52071, 1896, 64779, 3940),
    "mrpc": (799, 469, 1037, 1178, 1753),
    "qqp": (216515, 343656, 266594, 251996, 7963),
    "mnli": (218290, 39431, 27574, 258544, 320518),
    "qnli": (1659, 5876, 5829, 77419, 9576),
    "rte": (2429, 2463, 1361),
    "wnli": (266, 478, 294, 586, 243),
}  # fmt: skip
