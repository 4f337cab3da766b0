"""Data sets as facts: what they hold, which files they come in, where those are, and their checksums.

The first are the MODL paper's. The others are of the review of learning with haphazard inputs (Agarwal et al. 2024),
which `python -m reproduction haphazard` runs, together with four of the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes
    ----------
    name
        Its path under `<dir>/<folder>/`.
    url
        Its official address; None for a file that is not downloaded as such.
    sha256
        Of the file; None where it is not known.
    content_sha256
        Of what a .gz file holds, which stays the same when it is compressed anew.
    text_sha256
        Of the lines that are not blank, which stays the same however copies of the file end their lines.
    size
        Bytes.
    records
        How many records it holds; counted where no checksum is known.
    header
        Whether the first line is no record.
    member
        Its name in the zip archive that is at `url`; None where the file itself is there.
    """

    name: str
    url: str | None = None
    sha256: str | None = None
    content_sha256: str | None = None
    text_sha256: str | None = None
    size: int | None = None
    records: int | None = None
    header: bool = False
    member: str | None = None


@dataclass(frozen=True)
class Form:
    """Files that together are a data set, or a sample of one."""

    files: tuple[DataFile, ...]
    sample: bool = False


@dataclass(frozen=True)
class Dataset:
    """A data set that has a name.

    Attributes
    ----------
    name
        As `braided run` knows it.
    folder
        Sub-folder of a data folder.
    records, features, classes
        Of the full data set.
    origin
        Where it comes from, in words.
    shuffle
        Whether its publication shuffles it (it then is held in memory) or keeps the file's order.
    forms
        The first that is there is taken, full ones before samples. What has addresses can be fetched.
    """

    name: str
    folder: str
    records: int
    features: int
    classes: int
    origin: str
    shuffle: bool
    forms: tuple[Form, ...]

    @property
    def download(self) -> Form:
        """The form that is fetched.

        >>> [file.name for file in CATALOGUE["a8a"].download.files]
        ['a8a', 'a8a.t']
        """
        return next(form for form in self.forms if all(file.url for file in form.files))


_UCI = "the UCI repository, https://archive.ics.uci.edu/dataset/"
_LIBSVM = "the LIBSVM data page, https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"
_UCI_FILES = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
_LIBSVM_FILES = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_MNIST_FILES = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_MNIST_ORIGIN = "LeCun, Cortes and Burges's MNIST, kept at https://ossci-datasets.s3.amazonaws.com/mnist/"
_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"

_IMAGES_SHA256 = "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
_LABELS_SHA256 = "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
_MNIST_FORMS = (
    Form(
        (
            DataFile(
                "train-images-idx3-ubyte.gz",
                f"{_MNIST_FILES}train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                _IMAGES_SHA256,
            ),
            DataFile(
                "train-labels-idx1-ubyte.gz",
                f"{_MNIST_FILES}train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                _LABELS_SHA256,
            ),
        )
    ),
    Form(
        (
            DataFile("train-images-idx3-ubyte", sha256=_IMAGES_SHA256, size=47_040_016),
            DataFile("train-labels-idx1-ubyte", sha256=_LABELS_SHA256, size=60_008),
        )
    ),
)

_CIFAR_SHA256 = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
)


def _cifar_batches(folder: str, n: int) -> Form:
    files = (DataFile(f"{folder}data_batch_{i + 1}.bin", sha256=_CIFAR_SHA256[i], size=30_730_000) for i in range(n))
    return Form(tuple(files), sample=n < 5)


_CIFAR_FORMS = (
    _cifar_batches("", 5),
    _cifar_batches("cifar-10-batches-bin/", 5),
    Form(
        (
            DataFile(
                "cifar-10-binary.tar.gz", _CIFAR, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
            ),
        )
    ),
    *(_cifar_batches(folder, n) for n in (4, 3, 2, 1) for folder in ("", "cifar-10-batches-bin/")),
)


def _physics(official: DataFile, sample: DataFile) -> tuple[Form, ...]:
    unpacked = DataFile(official.name.removesuffix(".gz"), records=official.records)
    return Form((official,)), Form((unpacked,)), Form((sample,), sample=True)


def _of_review(name: str, records: int, features: int, origin: str, *files: DataFile) -> Dataset:
    return Dataset(name, f"haphazard/{name}", records, features, 2, origin, True, (Form(files),))


_WISCONSIN_FILES = f"{_UCI_FILES}breast-cancer-wisconsin/"
_PIMA = "https://www.kaggle.com/api/v1/datasets/download/uciml/pima-indians-diabetes-database"
_PIMA_SHA256 = "bf81d06e0c0512662862248241ab46d7c29258c6ceaad32f3cab56b52a17fdab"
_ITALY = "https://www.timeseriesclassification.com/aeon-toolkit/ItalyPowerDemand.zip"

_OF_REVIEW = (
    _of_review(
        "wpbc", 198, 33, f"{_UCI}16 (Breast Cancer Wisconsin, Prognostic)",
        DataFile(
            "wpbc.data", f"{_WISCONSIN_FILES}wpbc.data",
            text_sha256="f2bd5ccdb6086fa832370dc043319907430cf6bfcfd3b96a3961a357be345c8e",
        ),
    ),
    _of_review(
        "ionosphere", 351, 34, f"{_UCI}52 (Ionosphere)",
        DataFile(
            "ionosphere.data", f"{_UCI_FILES}ionosphere/ionosphere.data",
            text_sha256="46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
        ),
    ),
    _of_review(
        "wdbc", 569, 30, f"{_UCI}17 (Breast Cancer Wisconsin, Diagnostic)",
        DataFile(
            "wdbc.data", f"{_WISCONSIN_FILES}wdbc.data",
            text_sha256="d606af411f3e5be8a317a5a8b652b425aaf0ff38ca683d5327ffff94c3695f4a",
        ),
    ),
    _of_review(
        "australian", 690, 14, f"{_UCI}143 (Statlog Australian Credit Approval)",
        DataFile(
            "australian.dat", f"{_UCI_FILES}statlog/australian/australian.dat",
            text_sha256="3abe5af151afa50b999a9ba21cbc884e80d80a4050b716cf88b34a2e6ecb731c",
        ),
    ),
    _of_review(
        "wbc", 699, 9, f"{_UCI}15 (Breast Cancer Wisconsin, Original)",
        DataFile(
            "wbc.data", f"{_WISCONSIN_FILES}breast-cancer-wisconsin.data",
            text_sha256="402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
        ),
    ),
    _of_review(
        "diabetes_f", 768, 8, "Kaggle, https://www.kaggle.com/datasets/uciml/pima-indians-diabetes-database",
        DataFile("diabetes_f.csv", _PIMA, text_sha256=_PIMA_SHA256, header=True, member="diabetes.csv"),
    ),
    _of_review(
        "ipd", 1_096, 24,
        "the archive of time series, https://www.timeseriesclassification.com/description.php?Dataset=ItalyPowerDemand",
        DataFile(
            "ItalyPowerDemand_TRAIN.txt", _ITALY, member="ItalyPowerDemand_TRAIN.txt",
            text_sha256="63bf02d6a32e78729dd2e65e80f7f64bec7a20f9a78e0e2e05f0c8805596bccb",
        ),
        DataFile(
            "ItalyPowerDemand_TEST.txt", _ITALY, member="ItalyPowerDemand_TEST.txt",
            text_sha256="ccc6c47d996069ff8c4144d91456abfcee21aadd15f59e7088849e4faa0dbb46",
        ),
    ),
    _of_review(
        "krvskp", 3_196, 36, f"{_UCI}22 (Chess, King-Rook against King-Pawn)",
        DataFile(
            "krvskp.data", f"{_UCI_FILES}chess/king-rook-vs-king-pawn/kr-vs-kp.data",
            text_sha256="f47f7d920e117ab5764d3adcd2f6446ca596290261756ecd35c81b12fcaec061",
        ),
    ),
    _of_review(
        "spambase", 4_601, 57, f"{_UCI}94 (Spambase)",
        DataFile(
            "spambase.data", f"{_UCI_FILES}spambase/spambase.data",
            text_sha256="ebec58cfca94ea61c77df632314acae15bad410f4769d38b1a66cb41050e3431",
        ),
    ),
)  # fmt: skip


_OF_PAPER = (
    Dataset(
        "german", "german", 1_000, 24, 2, f"{_UCI}144 (Statlog German Credit)", True,
        (
            Form((
                DataFile(
                    "german.data-numeric", f"{_UCI_FILES}statlog/german/german.data-numeric",
                    "2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8", size=102_000,
                ),
            )),
        ),
    ),
    Dataset(
        "svmguide3", "svmguide3", 1_243, 22, 2, f"{_LIBSVM} (svmguide3)", True,
        (
            Form((DataFile("svmguide3.txt", records=1_243),)),
            Form((DataFile("svmguide3", f"{_LIBSVM_FILES}svmguide3", records=1_243),)),
        ),
    ),
    Dataset(
        "magic04", "magic04", 19_020, 10, 2, f"{_UCI}159 (MAGIC Gamma Telescope)", True,
        (
            Form((
                DataFile(
                    "magic04.data", f"{_UCI_FILES}magic/magic04.data",
                    "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a", size=1_477_391,
                ),
            )),
        ),
    ),
    # The 32,561 records of the paper are LIBSVM's training and test file, one after the other.
    Dataset(
        "a8a", "a8a", 32_561, 123, 2, f"{_LIBSVM} (a8a and a8a.t)", True,
        (
            Form((DataFile("a8a.txt", records=32_561),)),
            Form((
                DataFile("a8a", f"{_LIBSVM_FILES}a8a", records=22_696),
                DataFile("a8a.t", f"{_LIBSVM_FILES}a8a.t", records=9_865),
            )),
            Form((DataFile("a8a", records=22_696),), sample=True),
        ),
    ),
    Dataset(
        "higgs", "higgs", 11_000_000, 28, 2, f"{_UCI}280 (HIGGS)", False,
        _physics(
            DataFile("HIGGS.csv.gz", f"{_UCI_FILES}00280/HIGGS.csv.gz", size=2_816_407_858, records=11_000_000),
            DataFile("higgs_10k.csv.gz", records=10_000, header=True),
        ),
    ),
    Dataset(
        "susy", "susy", 5_000_000, 18, 2, f"{_UCI}279 (SUSY)", False,
        _physics(
            DataFile("SUSY.csv.gz", f"{_UCI_FILES}00279/SUSY.csv.gz", records=5_000_000),
            DataFile("susy_10k.csv.gz", records=9_999, header=True),
        ),
    ),
    Dataset("mnist", "mnist", 60_000, 784, 10, _MNIST_ORIGIN, False, _MNIST_FORMS),
    Dataset(
        "imnist", "mnist", 1_000_000, 784, 10, f"{_MNIST_ORIGIN}, deformed here", False, _MNIST_FORMS
    ),
    Dataset(
        "cifar10", "cifar10", 50_000, 3_072, 10, "Krizhevsky's page, https://www.cs.toronto.edu/~kriz/cifar.html",
        False, _CIFAR_FORMS,
    ),
)  # fmt: skip

CATALOGUE: dict[str, Dataset] = {dataset.name: dataset for dataset in (*_OF_PAPER, *_OF_REVIEW)}
