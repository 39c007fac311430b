import io

from gpuruntime.testing.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_file_gets_every_step_and_occasional_progress() -> None:
    stream = io.StringIO()
    progress = Progress(stream)

    progress.step("building")
    for done in range(1000):
        progress.advance("compiling", done, 1000)

    assert stream.getvalue() == "building (0:00)\n"


def test_the_first_advance_is_printed_with_its_progress() -> None:
    stream = io.StringIO()

    Progress(stream).advance("compiling", 3, 10)

    assert stream.getvalue() == "  compiling: 3 of 10 (0:00)\n"


def test_a_terminal_gets_one_line_that_is_cleared_at_the_end() -> None:
    stream = Terminal()
    progress = Progress(stream)

    progress.advance("compiling", 3, 10)
    progress.close()

    assert stream.getvalue() == "\r\x1b[2K  compiling: 3 of 10 (0:00)\r\x1b[2K"
