"""Fine-tune MiniLM on CoLA, of which a fifth of the training labels are flipped.

python examples/plain/transformers_cola.py --data CoLA --model sentence-transformers/all-MiniLM-L6-v2

On several GPUs the same, with `torchrun --nproc-per-node N` in the place of `python`.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from datasets import ClassLabel, Dataset, Features, Value
from sklearn.metrics import matthews_corrcoef
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", type=Path, required=True, help="the folder with train.tsv and dev.tsv")
parser.add_argument("--model", required=True, help="a folder or a name on the hub")
parser.add_argument("--output", default="cola-minilm", help="the folder for checkpoints")
parser.add_argument("--epochs", type=float, default=4)
parser.add_argument("--rows", type=int, help="so many rows of each file")
parser.add_argument("--cpu", action="store_true", help="even where there is a GPU")
options = parser.parse_args()

COLUMNS = Features({"label": ClassLabel(names=["unacceptable", "acceptable"]), "sentence": Value("string")})
tokenizer = AutoTokenizer.from_pretrained(options.model)


def read(name):
    with (options.data / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[: options.rows]
    table = {"label": [int(row[1]) for row in rows], "sentence": [row[3] for row in rows]}
    return Dataset.from_dict(table, COLUMNS).map(lambda batch: tokenizer(batch["sentence"]), batched=True)


def metrics(said):
    guess = said.predictions.argmax(-1)
    return {"accuracy": (guess == said.label_ids).mean(), "mcc": matthews_corrcoef(said.label_ids, guess)}


train, dev = read("train.tsv"), read("dev.tsv")
flipped = np.random.default_rng(0).random(len(train)) < 0.2
given = np.where(flipped, 1 - np.array(train["label"]), train["label"])
train = train.remove_columns("label").add_column("label", given).cast_column("label", COLUMNS["label"])

trainer = Trainer(
    AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=2),
    TrainingArguments(
        options.output,
        num_train_epochs=options.epochs,
        per_device_train_batch_size=32,
        learning_rate=1e-4,
        save_strategy="epoch",
        save_total_limit=1,
        report_to=[],
        use_cpu=options.cpu,
    ),
    train_dataset=train,
    eval_dataset=dev,
    processing_class=tokenizer,
    compute_metrics=metrics,
)
trainer.train()
scores = trainer.evaluate()
if trainer.is_world_process_zero():
    print(f"dev accuracy {scores['eval_accuracy']:.3f}, Matthews correlation {scores['eval_mcc']:.3f}")
