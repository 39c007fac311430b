from gpuruntime.archive.lag import ArchiveLag


def test_nothing_that_waits_is_no_lag() -> None:
    lag = ArchiveLag(100.0)

    lag.look(110.0, 5, 0, is_empty=True)

    assert lag.seconds(110.0) == 0
    assert lag.seconds(113.0) == 3


def test_the_lag_is_the_age_of_the_last_look_that_is_archived_also_under_load() -> None:
    lag = ArchiveLag(0.0)

    for second in range(10, 100, 10):
        # Ten results a second, of which all but the last fifteen are archived.
        lag.look(float(second), 10 * second, 10 * second - 15, is_empty=False)

    assert lag.seconds(90.0) == 10


def test_it_grows_while_nothing_is_archived_or_nats_is_away_and_falls_afterwards() -> None:
    lag = ArchiveLag(0.0)
    lag.look(10.0, 7, 7, is_empty=True)

    lag.look(20.0, 9, 7, is_empty=False)
    behind = lag.seconds(500.0)
    lag.look(510.0, 9, 9, is_empty=False)

    assert behind == 490
    assert lag.seconds(510.0) == 0


def test_a_look_that_finds_nothing_new_moves_the_time_up_to_which_all_is_known() -> None:
    lag = ArchiveLag(0.0)
    for second in (10.0, 20.0, 30.0):
        lag.look(second, 5, 0, is_empty=False)

    lag.look(40.0, 6, 5, is_empty=False)

    assert lag.seconds(40.0) == 10
