"""The paper's data sets as facts: what they hold, which files they come in, where those are, and their checksums."""

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
    size
        Bytes.
    records
        How many records it holds; counted where no checksum is known.
    header
        Whether the first line is no record.
    """

    name: str
    url: str | None = None
    sha256: str | None = None
    content_sha256: str | None = None
    size: int | None = None
    records: int | None = None
    header: bool = False


@dataclass(frozen=True)
class Form:
    """Files that together are a data set, or a sample of one."""

    files: tuple[DataFile, ...]
    sample: bool = False


@dataclass(frozen=True)
class Dataset:
    """A data set of the paper.

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
        Whether the paper shuffles it by seed (it then is held in memory) or keeps the file's order.
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


_ALL = (
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
        "imnist", "mnist", 1_000_000, 784, 10, f"deformed here from {_MNIST_ORIGIN}", False, _MNIST_FORMS
    ),
    Dataset(
        "cifar10", "cifar10", 50_000, 3_072, 10, "Krizhevsky's page, https://www.cs.toronto.edu/~kriz/cifar.html",
        False, _CIFAR_FORMS,
    ),
)  # fmt: skip

CATALOGUE: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
