"""ICEClassifier on handwritten digits of which a fifth have a wrong label.

python examples/sklearn_digits.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from icelens.integrations.sklearn import ICEClassifier

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
wrong = np.random.default_rng(0).random(len(y)) < 0.2
y[wrong] = (y[wrong] + np.random.default_rng(1).integers(1, 10, wrong.sum())) % 10

plain = make_pipeline(StandardScaler(), MLPClassifier(max_iter=500, random_state=0)).fit(X, y)
model = ICEClassifier(random_state=0).fit(X, y)
print(
    f"test accuracy: MLPClassifier {plain.score(X_test, y_test):.3f}, ICE {model.score(X_test, y_test):.3f}"
)

suspects = model.suspects()
print(f"{len(suspects)} suspects, of which {wrong[suspects['index']].mean():.0%} are wrong")
print(f"they hold {wrong[suspects['index']].sum() / wrong.sum():.0%} of the {wrong.sum()} wrong labels")
print(suspects.head(5).to_string(index=False))
