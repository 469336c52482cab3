import hashlib

from dataprep.build.software import software


def test_the_digest_of_the_sources_covers_files() -> None:
    assert software()["mindspore-dataprep"] != hashlib.sha256().hexdigest()[:16]
