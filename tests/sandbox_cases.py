"""What every kind of sandbox must do; each kind's test file runs these on its own."""

import pickle
import textwrap

import numpy as np
import pytest

from scoring.sandbox import Limits
from scoring.strangers import REASONS

STAYS, TIMES, FEATURES = 6, 5, 4
SHAPE = (STAYS, TIMES, FEATURES)
SECRET = "s3cret-of-the-harness"
MIB = 1 << 20


def hider_arrays():
    data = np.arange(np.prod(SHAPE), dtype=np.float64).reshape(SHAPE)
    data[0, 0, 1] = np.nan
    mask = np.zeros(SHAPE, dtype=bool)
    mask[1, :2] = True
    return {"data": data, "padding_mask": mask}


def seeker_arrays():
    half, enlarged = hider_arrays(), np.zeros((2 * STAYS, TIMES, FEATURES))
    return {
        "generated_data": half["data"],
        "generated_data_padding_mask": None,
        "enlarged_data": enlarged,
        "enlarged_data_padding_mask": np.zeros(enlarged.shape, dtype=bool),
    }


class SandboxCases:
    """A subclass gives a fixture `sandbox` and the limits that are small for its kind."""

    limits: Limits
    takes_rights_away = True  # whether a submission's own files are another user's

    @pytest.fixture
    def play(self, sandbox, tmp_path):
        """Run code as a submission: the body of a hider, or of a seeker, or a whole file."""

        def run(code, role="hider", *, whole=False, files=(), arrays=None, parameters=None, limits=None, seed=7):
            folder = tmp_path / f"submission{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            code = textwrap.dedent(code)
            if not whole:
                code = (
                    f"import os, sys\nimport numpy as np\n\ndef {role}(input_dict):\n{textwrap.indent(code, '    ')}\n"
                )
            (folder / f"{role}.py").write_text(code)
            for name, content in files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(content)
            arrays = arrays or (hider_arrays() if role == "hider" else seeker_arrays())
            return sandbox.run(folder, role, arrays, seed, limits or self.limits, parameters)

        return run

    # --- The contract ---

    @pytest.mark.parametrize(
        ("form", "masked", "eval_seeds"),
        [
            ("data", False, None),
            ("(data, 3)", False, 3),
            ("(data, mask)", True, None),
            ("(data, None)", False, None),
            ("(data, mask, 0)", True, 0),
            ("(data, None, np.int64(5))", False, 5),
            ("(data, mask, None)", True, None),
        ],
    )
    def test_each_form_of_a_hiders_answer_comes_back(self, play, form, masked, eval_seeds):
        outcome = play(f"data, mask = input_dict['data'] + 1, input_dict['padding_mask']\nreturn {form}")
        assert (outcome.status, outcome.reason) == ("ok", ""), outcome.stderr
        given = hider_arrays()
        np.testing.assert_array_equal(outcome.outputs["generated_data"], given["data"] + 1)
        if masked:
            np.testing.assert_array_equal(outcome.outputs["padding_mask"], given["padding_mask"])
        else:
            assert outcome.outputs["padding_mask"] is None
        assert outcome.outputs["eval_seeds"] == eval_seeds

    @pytest.mark.parametrize("word", ["rescore", "reevaluate"])
    def test_a_hider_can_ask_for_its_earlier_data(self, play, word):
        assert play(f"return '{word}'").outputs == {"rescore": True}

    @pytest.mark.parametrize("shape", [(12,), (12, 1), (1, 12)])
    def test_labels_come_back_in_each_shape(self, play, shape):
        outcome = play(f"return (np.arange(12) % 2).reshape({shape})", "seeker")
        assert outcome.outputs["labels"].tolist() == [False, True] * 6
        assert outcome.outputs["scores"] is None

    def test_a_seeker_may_give_scores_too(self, play):
        outcome = play("return np.arange(12) > 5, np.arange(12) / 12", "seeker")
        assert outcome.outputs["labels"].sum() == 6
        np.testing.assert_allclose(outcome.outputs["scores"], np.arange(12) / 12)

    def test_a_submission_sees_the_contracts_input_and_no_more(self, play):
        shown = "print(sorted((k, getattr(v, 'shape', v)) for k, v in input_dict.items()))\n"
        hider = play(shown + "return input_dict['data']")
        assert eval(hider.stdout) == [("data", SHAPE), ("padding_mask", SHAPE), ("seed", 7)]
        seeker = play(shown + "return np.zeros(12)", "seeker")
        assert [name for name, _ in eval(seeker.stdout)] == [
            "enlarged_data",
            "enlarged_data_padding_mask",
            "generated_data",
            "generated_data_padding_mask",
            "seed",
        ]
        assert dict(eval(seeker.stdout))["generated_data_padding_mask"] is None

    def test_the_split_cannot_be_handed_in_by_mistake(self, play):
        with pytest.raises(ValueError, match="a seeker gets"):
            play("return np.zeros(12)", "seeker", arrays={**seeker_arrays(), "labels": np.zeros(12)})

    def test_a_submission_brings_its_own_utils_and_runs_in_its_folder(self, play):
        code = """
        from utils.mine import shift
        def hider(input_dict):
            return input_dict["data"] + shift + int(open("weights.txt").read())
        """
        files = [("utils/__init__.py", ""), ("utils/mine.py", "shift = 2"), ("weights.txt", "40")]
        outcome = play(code, whole=True, files=files)
        np.testing.assert_array_equal(outcome.outputs["generated_data"], hider_arrays()["data"] + 42)

    def test_a_submission_may_change_its_input_in_place(self, play):
        arrays = hider_arrays()
        outcome = play("input_dict['data'][:] = 0\nreturn input_dict['data']", arrays=arrays)
        assert not outcome.outputs["generated_data"].any()
        assert arrays["data"].any()

    def test_the_global_generators_are_seeded_as_in_2020(self, play):
        code = "import random\nreturn np.full(input_dict['data'].shape, random.random() + np.random.rand())"
        first, again, other = play(code), play(code), play(code, seed=8)
        assert first.outputs["generated_data"][0, 0, 0] == again.outputs["generated_data"][0, 0, 0]
        assert first.outputs["generated_data"][0, 0, 0] != other.outputs["generated_data"][0, 0, 0]

    # --- What fails, and what its submitter is told ---

    def test_the_line_that_raised_is_told_and_the_message_is_not(self, play):
        outcome = play(
            """
            try:
                raise KeyError("patient 4711")
            except KeyError as error:
                raise ValueError(f"value {input_dict['data'][0, 0, 0]} of patient 4711") from error
            """
        )
        assert (outcome.status, outcome.reason) == ("failed", "raised an exception")
        assert outcome.submitter_log.splitlines()[1] == '  File "hider.py", line 9'
        assert outcome.submitter_log.splitlines()[-1] == "ValueError: <message redacted>"
        assert "4711 of" not in outcome.submitter_log
        assert "value 0.0" not in outcome.submitter_log

    def test_the_organiser_reads_the_whole_traceback_and_the_cause_in_one_line(self, play):
        outcome = play("import no_such_library")
        assert outcome.explained == "raised ModuleNotFoundError: No module named 'no_such_library'"
        assert "Traceback" in outcome.stderr
        assert "import no_such_library" in outcome.stderr
        assert "no_such_library'" not in outcome.reason + outcome.submitter_log

    def test_an_exception_that_cannot_be_printed_fails_its_submission_alone(self, play):
        outcome = play(
            """
            class Strange(Exception):
                def __str__(self):
                    raise SystemExit(0)
            raise Strange
            """
        )
        assert (outcome.status, outcome.reason) == ("failed", "raised an exception")
        assert "Strange" in outcome.detail

    def test_data_is_not_printed_through_an_exception(self, play):
        outcome = play(
            """
            value = 'v' + str(int(input_dict['data'][0, 0, 2])) + 'leak'
            source = 'def ' + value + '():\\n raise type(value, (Exception,), {})(value)  # ' + value
            path = os.path.join(os.environ['HOME'], value + '.py')
            with open(path, 'w') as file:
                file.write(source)
            space = {'value': value}
            exec(compile(source, path, 'exec'), space)
            space[value]()
            """
        )
        assert outcome.status == "failed"
        assert "v2leak" not in outcome.submitter_log + outcome.reason
        assert 'File "hider.py"' in outcome.submitter_log

    @pytest.mark.parametrize("line", [["../in/request.json", 1], ["/etc/passwd", 1], ["hider.py", 10**9], None])
    def test_a_forged_error_file_shows_nothing_but_a_line_of_the_submission(self, play, line):
        outcome = play(
            f"""
            import json
            with open(os.path.join(sys.argv[3], 'error.json'), 'w') as file:
                json.dump({{'class': 'secret4711', 'line': {line!r}}}, file)
            os._exit(1)
            """
        )
        assert outcome.status == "failed"
        assert outcome.submitter_log.splitlines() == [
            "Traceback (the submission's own last line):",
            "Exception: <message redacted>",
        ]

    def test_a_submission_cannot_put_data_into_its_own_lines(self, play):
        outcome = play(
            """
            try:
                with open("hider.py", "a") as file:
                    file.write("# v" + str(int(input_dict['data'][0, 0, 2])) + "leak")
            except OSError:
                pass
            import json
            with open(os.path.join(sys.argv[3], "error.json"), "w") as file:
                json.dump({"class": "KeyError", "line": ["hider.py", 15]}, file)  # where the appended line would stand
            os._exit(1)
            """
        )
        assert "KeyError: <message redacted>" in outcome.submitter_log
        assert "v2leak" not in outcome.submitter_log

    def test_a_syntax_error_is_located(self, play):
        outcome = play("x = 1\ndef hider(input_dict)\n    pass\n", whole=True)
        assert outcome.status == "failed"
        assert 'File "hider.py", line 2' in outcome.submitter_log
        assert "SyntaxError: <message redacted>" in outcome.submitter_log

    def test_a_submission_that_leaves_early_has_no_answer(self, play):
        assert play("sys.exit(0)").status == "failed"
        assert play("os._exit(0)").status == "invalid_output"
        assert play("os.kill(os.getpid(), 9)").status in (
            "failed",
            "invalid_output",
        )  # a container's first process lives

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            ("None", "no form"),
            ("'other'", "no form"),
            ("np.array([{}])", "no form"),
            ("np.array(['a'])", "no form"),
            ("(input_dict['data'], None, None, None)", "no form"),
            ("input_dict['data'][:-1]", "shape"),
            ("input_dict['data'] + np.inf", "infinite"),
            ("input_dict['data'] * np.nan", "NaN"),
            ("(input_dict['data'], input_dict['padding_mask'][:, :1])", "shape"),
            ("(input_dict['data'], 9)", "eval_seeds"),
        ],
    )
    def test_an_answer_outside_the_contract_is_refused(self, play, answer, reason):
        outcome = play(f"return {answer}")
        assert outcome.status == "invalid_output"
        assert reason in outcome.reason
        assert "\n" not in outcome.reason
        assert not outcome.outputs

    @pytest.mark.parametrize("answer", ["np.zeros(11)", "np.full(12, np.nan)", "np.zeros((6, 2))", "'rescore'"])
    def test_labels_outside_the_contract_are_refused(self, play, answer):
        assert play(f"return {answer}", "seeker").status == "invalid_output"

    # --- Attacks ---

    @pytest.mark.parametrize(
        "write",
        [
            "np.savez(out, generated_data=np.full(data.shape, Evil(), dtype=object))",
            "import pickle; open(out, 'wb').write(pickle.dumps(Evil()))",
            "np.save(open(out, 'wb'), np.array([Evil()], dtype=object))",
            "np.savez(out, generated_data=data, evil=np.array([Evil()], dtype=object))",
            "np.savez(out, generated_data=np.zeros(data.shape, dtype=[('a', 'f8'), ('b', 'O')]))",
            "np.savez_compressed(out, generated_data=data)",
            "np.savez(out, generated_data=np.zeros(data.shape, dtype='c16'))",
            "np.savez(out, generated_data=data); os.truncate(out, os.path.getsize(out) - 30)",
        ],
    )
    def test_a_pickle_or_a_forged_file_is_not_loaded(self, play, tmp_path, write):
        code = f"""
        import builtins, os, sys
        import numpy as np
        class Evil:
            def __reduce__(self):
                return builtins.open, ({str(tmp_path / "pwned")!r}, "w")
        def hider(input_dict):
            data, out = input_dict["data"], os.path.join(sys.argv[3], "output.npz")
            {write}
            os._exit(0)
        """
        outcome = play(code, whole=True)
        assert outcome.status == "invalid_output"
        assert not (tmp_path / "pwned").exists()

    def test_a_link_in_place_of_the_output_is_not_followed(self, play, tmp_path):
        other = tmp_path / "other.npz"
        np.savez(other, generated_data=np.ones(SHAPE))
        outcome = play(
            f"""
            out = os.path.join(sys.argv[3], "output.npz")
            try:
                os.remove(out)
                os.symlink({str(other)!r}, out)
            finally:
                os._exit(0)
            """
        )
        assert outcome.status == "invalid_output"

    def test_the_environment_holds_nothing_of_the_harness(self, play, monkeypatch):
        monkeypatch.setenv("HIDE_AND_SEEK_TOKEN", SECRET)
        outcome = play("print(dict(os.environ))\nreturn input_dict['data']")
        assert outcome.status == "ok"
        assert "HOME" in outcome.stdout
        assert "TOKEN" not in outcome.stdout
        assert SECRET not in outcome.stdout

    def test_an_endless_loop_is_ended(self, play):
        outcome = play("while True: pass", limits=self.limited(seconds=1.0))
        assert (outcome.status, outcome.reason) == ("timeout", "ran out of time")
        assert outcome.seconds < 30

    @pytest.mark.parametrize("rates", [(91, 82, 103, 88, 97), (4711,)])
    def test_patients_values_do_not_reach_others_through_what_is_refused(self, play, rates):
        """A forged shape, a count of infinite cells, and eval_seeds once stood on the leaderboard."""
        forged = play(
            f"""
            out = os.path.join(sys.argv[3], "output.npz")
            np.savez(out, generated_data=np.zeros(1))
            import zipfile
            header = "{{'descr': '<f8', 'fortran_order': False, 'shape': {rates!r}, }}".ljust(117) + "\\n"
            with zipfile.ZipFile(out, "w") as archive:
                archive.writestr("generated_data.npy", b"\\x93NUMPY\\x01\\x00\\x76\\x00" + header.encode())
            os._exit(0)
            """
        )
        counted = play(f"x = np.zeros(input_dict['data'].shape)\nx.flat[:{rates[0] % 100}] = np.inf\nreturn x")
        seeded = play(f"return input_dict['data'], {rates[0]}000")
        for outcome in (forged, counted, seeded):
            assert outcome.status == "invalid_output"
            assert outcome.reason in REASONS
            assert outcome.submitter_log == ""

    def test_100_gb_of_memory_are_not_to_be_had(self, play):
        outcome = play("x = np.ones(100 * 10**9 // 8)\nreturn input_dict['data']")
        assert outcome.status == "memory"

    def test_memory_taken_little_by_little_is_bounded(self, play):
        outcome = play("x = [np.ones(2**20) for _ in range(256)]\nreturn input_dict['data']")  # 2 GiB
        assert outcome.status == "memory"

    def test_a_fork_bomb_stays_within_its_bound(self, play):
        code = """
        count = 0
        try:
            while count < 2000:
                if os.fork() == 0:
                    while True: pass
                count += 1
        except OSError:
            pass
        print(count, flush=True)
        return input_dict["data"]
        """
        outcome = play(code, limits=self.limited(processes=40))
        assert outcome.status == "ok", outcome
        assert 1 <= int(outcome.stdout) <= 40

    def test_a_10_gb_file_is_not_written(self, play):
        code = """
        with open(os.path.join(os.environ["HOME"], "big"), "wb") as file:
            for _ in range(10000):
                file.write(bytes(10**6))
        """
        assert play(code).status == "output_limit"

    def test_the_output_file_itself_is_bounded(self, play):
        code = """
        with open(os.path.join(sys.argv[3], "output.npz"), "wb") as file:
            file.seek(10 * 10**9)
            file.write(b"x")
        """
        assert play(code).status == "output_limit"

    def test_only_its_two_files_can_be_written_in_the_output_folder(self, play):
        self.skip_where_it_is_the_same_user()
        code = "open(os.path.join(sys.argv[3], 'third'), 'w')"
        outcome = play(code)
        assert outcome.status == "failed"
        assert "PermissionError" in outcome.submitter_log or "OSError" in outcome.submitter_log

    def test_its_own_code_and_input_cannot_be_changed(self, play):
        self.skip_where_it_is_the_same_user()
        for path in ("'hider.py'", "os.path.join(sys.argv[2], 'data.npy')", "'new.py'"):
            outcome = play(f"open({path}, 'a')")
            assert outcome.status == "failed"
            assert "PermissionError" in outcome.submitter_log or "OSError" in outcome.submitter_log

    def test_what_it_prints_is_kept_for_the_organiser_and_cut(self, play):
        code = """
        print('begin')
        for _ in range(100):
            print('x' * 10**5)
        print('error', file=sys.stderr)
        return input_dict["data"]
        """
        outcome = play(code, limits=self.limited(log=1000))
        assert outcome.status == "ok"
        assert 0 < len(outcome.stdout) <= 1000
        assert "error" in outcome.stderr
        assert outcome.submitter_log == ""

    def skip_where_it_is_the_same_user(self):
        if not self.takes_rights_away:
            pytest.skip("an ordinary user cannot give a submission a user of its own")

    def test_a_sandbox_can_be_sent_to_another_process(self, sandbox, tmp_path):
        (tmp_path / "hider.py").write_text("def hider(input_dict):\n    return input_dict['data']\n")
        sent = pickle.loads(pickle.dumps(sandbox))
        assert sent.run(tmp_path, "hider", hider_arrays(), 0, self.limits).status == "ok"

    def limited(self, **changes):
        return Limits(**{**vars(self.limits), **changes})
