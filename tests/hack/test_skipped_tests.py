"""The list of skipped tests at the end of `hack/test`."""

from hack.skipped_tests import skip_lines


def test_each_reason_has_one_line_with_its_number_of_tests() -> None:
    reasons = ["Skipped: needs root", "Skipped: needs npm", "Skipped: needs npm", "no clock"]

    lines = skip_lines(reasons)

    assert lines == ["2 tests: needs npm", "1 test: needs root", "1 test: no clock"]
