"""A Datalab over handwritten digits, with cleanlab's own scores.

python examples/plain/cleanlab_datalab.py
"""

import numpy as np
from cleanlab import Datalab
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict

X, y = load_digits(return_X_y=True)
X, y = X[:600] / 16, y[:600]
wrong = np.random.default_rng(0).random(len(y)) < 0.1
y[wrong] = (y[wrong] + 1) % 10

lab = Datalab({"digit": y}, label_name="digit", verbosity=0)
p = cross_val_predict(LogisticRegression(max_iter=1000), X, y, cv=5, method="predict_proba")
lab.find_issues(pred_probs=p, issue_types={"label": {}})

print(lab.get_issue_summary().to_string(index=False))
found = lab.get_issues("label")
precision = average_precision_score(wrong, -found["label_score"])
hits = wrong[found["is_label_issue"]].mean()
print(f"label: average precision {precision:.3f}; {hits:.0%} of its list are wrong")
