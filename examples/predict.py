"""Train a classifier on completed people, save the model, and serve people who come later."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

import cofill
from cofill.errors import DataError
from cofill.nets import FusionSettings

try:
    data, home = cofill.load("credit"), "demo"  # which credit card clients will default?
except DataError:  # the file is not there: use data that come with scikit-learn
    data, home = cofill.load("wdbc"), "error"  # which masses are malignant?

chosen = np.sort(np.random.default_rng(0).permutation(data.views.n_individuals)[:3000])
views, outcome = data.views.take(chosen), np.asarray(data.labels)[chosen] == max(data.labels)
is_later = np.random.default_rng(1).random(len(chosen)) < 0.5
others = [name for name in views if name != home]
known, _ = cofill.drop_rows(views, 0.5, key=0, names=others)  # others know half of the people

model = cofill.CooperativeReconstruction(fusion=FusionSettings(hidden=()))
model.fit(known.take(~is_later))
with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "model")  # or: cofill complete … --separate --save model/
    served = cofill.load_model(Path(folder) / "model")

completed = np.empty((len(chosen), sum(view.n_features for view in views.values())))
completed[~is_later] = np.hstack(list(model.complete(known.take(~is_later)).cells.values()))
completed[is_later] = np.hstack(list(served.complete(known.take(is_later)).cells.values()))
cells = {
    f"own view only ({home})": views.aligned(home),
    "completed": completed,
    "nothing was missing": np.hstack([views.aligned(name) for name in views]),
}

print(f"{'what is known of a person':<28}{'area under the ROC curve':>26}")
for name, columns in cells.items():
    scaled = QuantileTransformer(n_quantiles=100, output_distribution="normal")
    classifier = make_pipeline(scaled, LogisticRegression(C=0.1, max_iter=500))
    classifier.fit(columns[~is_later], outcome[~is_later])
    chances = classifier.predict_proba(columns[is_later])[:, 1]
    print(f"{name:<28}{roc_auc_score(outcome[is_later], chances):>26.3f}")
