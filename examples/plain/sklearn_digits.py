"""MLPClassifier on handwritten digits of which a fifth have a wrong label.

python examples/plain/sklearn_digits.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
wrong = np.random.default_rng(0).random(len(y)) < 0.2
y[wrong] = (y[wrong] + np.random.default_rng(1).integers(1, 10, wrong.sum())) % 10

plain = make_pipeline(StandardScaler(), MLPClassifier(max_iter=500, random_state=0)).fit(X, y)
print(f"test accuracy: MLPClassifier {plain.score(X_test, y_test):.3f}")
