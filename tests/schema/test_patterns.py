import pytest

from gpuruntime.schema.patterns import PatternError, compiled


@pytest.mark.parametrize(
    ("regex", "text", "matches"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        (r"^\d+$", "12", True),
        (r"^\d+$", "١٢", False),
        (r"^\w$", "é", False),
        (r"^\s$", "\t", True),
        (r"^\s$", "\v", False),
        (r"^[\s]$", "\v", False),
        (r"^\S$", "\v", True),
        (r"^[[]$", "[", True),
        (r"^[]a]+$", "]a", True),
        (r"^[^]a]$", "]", False),
        (r"^[a&|~$]+$", "a&|~$", True),
        (r"^[a\-z]$", "-", True),
        (r"^\.\x41$", ".A", True),
        ("^(?:a|b){2}$", "ab", True),
        ("^(?P<first>a)$", "a", True),
        ("a+?", "xaax", True),
        (r"^\$$", "$", True),
    ],
)
def test_a_pattern_has_the_meaning_of_the_server(regex: str, text: str, matches: bool) -> None:
    assert (compiled(regex).search(text) is not None) is matches


@pytest.mark.parametrize(
    "regex",
    [
        *(
            "(?=a)",
            "(?!a)",
            "(?<=a)",
            "(?<!a)",
            "(?i)a",
            r"(a)\1",
            "a++",
            "a{,3}",
            "a{1001}",
            r"\pL",
            r"\Z",
            r"\A",
            "\\",
        ),
        *(r"[[:alpha:]]", "[--/]", r"[\S]", r"\u0041", "(", "[a", "a**"),
    ],
)
def test_syntax_that_is_not_shared_is_refused(regex: str) -> None:
    with pytest.raises(PatternError):
        compiled(regex)
