"""DATASETS: the published data sets that icelens knows, with their addresses, sizes and checksums.

The sizes and sha256 sums are those that TensorFlow Datasets and Hugging Face's `datasets` publish
for these addresses.
"""

from __future__ import annotations

from functools import partial

from icelens.data import cifar, cifar10n, glue, idx, names, svhn
from icelens.data.digits import digits
from icelens.data.source import Layout, Remote, Source

Published = tuple[str, int, str]  # file, bytes, sha256
NOT_STATED = "not stated"
IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


DIGITS = Source(
    "scikit-learn's digits, 8 x 8 pixels", (1_348, 449), names.DIGITS,
    # No files under the root: they come with scikit-learn, so this layout is complete everywhere.
    (Layout("scikit-learn", (), lambda folder: digits()),), (),
    home="https://archive.ics.uci.edu/dataset/80", licence="CC BY 4.0",
)  # fmt: skip


def _remotes(url: str, folder: str, *files: Published) -> tuple[Remote, ...]:
    return tuple(Remote(f"{url}/{file}", folder, size, f"sha256:{digest}") for file, size, digest in files)


def _mnist_like(title: str, folders: tuple[str, str], classes: tuple[str, ...], *, url: str,
                sums: tuple[tuple[int, str], ...], home: str, licence: str) -> Source:  # fmt: skip
    read = partial(idx.read_split, classes=classes)
    layouts = tuple(Layout(folder, IDX_FILES, read, or_gz=True) for folder in folders)
    files = [(f"{name}.gz", *published) for name, published in zip(IDX_FILES, sums, strict=True)]
    return Source(title, (60_000, 10_000), classes, layouts, _remotes(url, folders[0], *files), home, licence)


MNIST = _mnist_like(
    "handwritten digits", ("mnist", "MNIST/raw"), names.DIGITS,
    url="https://storage.googleapis.com/cvdf-datasets/mnist",
    sums=(
        (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
    home="http://yann.lecun.com/exdb/mnist/", licence=NOT_STATED,
)  # fmt: skip

FASHION_MNIST = _mnist_like(
    "Zalando's pictures of clothes", ("fashion-mnist", "FashionMNIST/raw"), names.FASHION,
    url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    sums=(
        (26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        (29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        (4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ),
    home="https://github.com/zalandoresearch/fashion-mnist", licence="MIT",
)  # fmt: skip

KMNIST = _mnist_like(
    "cursive Japanese characters", ("kmnist", "KMNIST/raw"), names.KUZUSHIJI,
    url="http://codh.rois.ac.jp/kmnist/dataset/kmnist",
    sums=(
        (18_165_135, "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4"),
        (29_497, "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17"),
        (3_041_136, "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5"),
        (5_120, "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c"),
    ),
    home="http://codh.rois.ac.jp/kmnist/", licence="CC BY-SA 4.0",
)  # fmt: skip

SVHN = Source(
    "house numbers, cropped digits", (73_257, 26_032), names.DIGITS,
    (Layout("svhn", ("train_32x32.mat", "test_32x32.mat"), partial(svhn.read_split, classes=names.DIGITS)),),
    _remotes(
        "http://ufldl.stanford.edu/housenumbers", "svhn",
        ("train_32x32.mat", 182_040_794, "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"),
        ("test_32x32.mat", 64_275_384, "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
    ),
    home="http://ufldl.stanford.edu/housenumbers/", licence="for non-commercial use only",
)  # fmt: skip

_CIFAR_URL, _CIFAR_HOME = "https://www.cs.toronto.edu/~kriz", "https://www.cs.toronto.edu/~kriz/cifar.html"
_TEN = (*cifar.TEN_BATCHES, "test_batch")
_TEN_BIN = tuple(f"{name}.bin" for name in _TEN)

CIFAR10 = Source(
    "small photographs, 10 classes", (50_000, 10_000), names.CIFAR10,
    (
        Layout("cifar-10-batches-bin", _TEN_BIN, partial(cifar.read_ten_binary, classes=names.CIFAR10)),
        Layout("cifar-10-batches-py", _TEN, partial(cifar.read_ten_python, classes=names.CIFAR10)),
    ),
    _remotes(
        _CIFAR_URL, "cifar-10-batches-bin",
        ("cifar-10-binary.tar.gz", 170_052_171,
         "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),
    ),
    home=_CIFAR_HOME, licence=NOT_STATED,
)  # fmt: skip


def _human(which: str, share: str) -> Source:
    layouts = tuple(
        Layout(
            "", (cifar10n.FILE, *(f"{layout.folder}/{name}" for name in layout.files)),
            partial(cifar10n.with_human_labels, which=which, read=layout.read, folder=layout.folder),
        )
        for layout in CIFAR10.layouts
    )  # fmt: skip
    title = f"CIFAR-10 as people labelled it, {share} wrong"
    return Source(title, CIFAR10.rows, names.CIFAR10, layouts, (), "http://noisylabels.com", "CC BY-NC 4.0")


CIFAR100 = Source(
    "small photographs, 100 classes", (50_000, 10_000), names.CIFAR100,
    (
        Layout("cifar-100-binary", ("train.bin", "test.bin"),
               partial(cifar.read_hundred_binary, classes=names.CIFAR100)),
        Layout("cifar-100-python", ("train", "test"),
               partial(cifar.read_hundred_python, classes=names.CIFAR100)),
    ),
    _remotes(
        _CIFAR_URL, "cifar-100-binary",
        ("cifar-100-binary.tar.gz", 168_513_733,
         "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"),
    ),
    home=_CIFAR_HOME, licence=NOT_STATED,
)  # fmt: skip

_GLUE_URL = "https://dl.fbaipublicfiles.com/glue/data"


def _glue(title: str, task: glue.Task, folder: str, rows: tuple[int, int], file: Published, *,
          home: str, licence: str = NOT_STATED) -> Source:  # fmt: skip
    layout = Layout(f"glue/{folder}", ("train.tsv", *task.tests), partial(glue.read_split, task=task))
    return Source(
        title, rows, task.classes, (layout,), _remotes(_GLUE_URL, layout.folder, file), home, licence
    )


COLA = _glue(
    "is a sentence acceptable English", glue.TASKS["cola"], "CoLA", (8_551, 1_043),
    ("CoLA.zip", 376_971, "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"),
    home="https://nyu-mll.github.io/CoLA/",
)  # fmt: skip

SST2 = _glue(
    "mood of film reviews", glue.TASKS["sst2"], "SST-2", (67_349, 872),
    ("SST-2.zip", 7_439_277, "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
    home="https://nlp.stanford.edu/sentiment/index.html",
)  # fmt: skip

_MRPC = "glue/MRPC"

MRPC = Source(
    "do two sentences mean the same", (3_668, 408), glue.TASKS["mrpc"].classes,
    (
        Layout(_MRPC, ("train.tsv", "dev.tsv"), partial(glue.read_split, task=glue.TASKS["mrpc"])),
        Layout(_MRPC, ("msr_paraphrase_train.txt", "mrpc_dev_ids.tsv"), glue.read_mrpc_original),
    ),
    # GLUE does not host the sentences, only the list of pairs that make its dev set.
    (
        *_remotes(
            "https://dl.fbaipublicfiles.com/senteval/senteval_data", _MRPC,
            ("msr_paraphrase_train.txt", 1_047_044,
             "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89"),
        ),
        *_remotes(
            _GLUE_URL, _MRPC,
            ("mrpc_dev_ids.tsv", 6_222, "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7"),
        ),
    ),
    home="https://www.microsoft.com/en-us/download/details.aspx?id=52398",
    licence="Microsoft Research licence",
)  # fmt: skip

QQP = _glue(
    "do two questions ask the same", glue.TASKS["qqp"], "QQP", (363_846, 40_430),
    ("QQP-clean.zip", 41_696_084, "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"),
    home="https://data.quora.com/First-Quora-Dataset-Release-Question-Pairs",
    licence="Quora's terms, non-commercial",
)  # fmt: skip

MNLI = _glue(
    "does one sentence entail another", glue.TASKS["mnli"], "MNLI", (392_702, 9_815),
    ("MNLI.zip", 312_783_507, "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"),
    home="https://cims.nyu.edu/~sbowman/multinli/", licence="OANC, CC BY-SA 3.0, CC BY 3.0, by genre",
)  # fmt: skip

QNLI = _glue(
    "does a sentence answer a question", glue.TASKS["qnli"], "QNLI", (104_743, 5_463),
    ("QNLIv2.zip", 10_627_589, "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5"),
    home="https://rajpurkar.github.io/SQuAD-explorer/", licence="CC BY-SA 4.0",
)  # fmt: skip

RTE = _glue(
    "textual entailment, small", glue.TASKS["rte"], "RTE", (2_490, 277),
    ("RTE.zip", 697_150, "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),
    home="https://aclweb.org/aclwiki/Recognizing_Textual_Entailment",
)  # fmt: skip

WNLI = _glue(
    "Winograd schemas as entailment", glue.TASKS["wnli"], "WNLI", (635, 71),
    ("WNLI.zip", 28_999, "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46"),
    home="https://cs.nyu.edu/~davise/papers/WinogradSchemas/WS.html", licence="CC BY 4.0",
)  # fmt: skip

DATASETS: dict[str, Source] = {
    "digits": DIGITS,
    "mnist": MNIST,
    "fashion-mnist": FASHION_MNIST,
    "kmnist": KMNIST,
    "svhn": SVHN,
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "cifar10n-aggregate": _human("aggregate", "9 %"),
    "cifar10n-worst": _human("worst", "40 %"),
    "cola": COLA,
    "sst2": SST2,
    "mrpc": MRPC,
    "qqp": QQP,
    "mnli": MNLI,
    "qnli": QNLI,
    "rte": RTE,
    "wnli": WNLI,
}
