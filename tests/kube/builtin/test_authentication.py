from gpuruntime.kube.builtin.authentication import TokenReview, TokenReviewSpec
from gpuruntime.meta.codec import decode, encode


def test_a_token_review_has_no_metadata_and_hides_its_token() -> None:
    review = TokenReview(TokenReviewSpec("secret-token", audiences=("runtime",)))

    assert encode(review) == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "secret-token", "audiences": ["runtime"]},
    }
    assert "secret-token" not in repr(review)


def test_what_the_wire_calls_extra_is_not_confused_with_unknown_fields() -> None:
    user = {"username": "system:serviceaccount:ns:sa", "extra": {"example.org/pod": ["p"]}, "future": 1}
    wire = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "metadata": {},
        "status": {"authenticated": True, "user": user},
    }

    review = decode(TokenReview, wire)

    assert review.status.authenticated
    assert review.status.user.attributes == {"example.org/pod": ("p",)}
    assert review.status.user.extra == {"future": 1}
    assert encode(review) == wire
