"""Claims about configs: what a file means in plain ints, and that every fault is reported, named and placed."""

import json
import pickle
import tomllib
from pathlib import Path

import pytest

from pdes.config import Config, FatTreeConfig, RoftConfig, TrainingConfig, config_from_dict, load_config
from pdes.errors import ConfigError

FAT_TREE = '[topology]\nkind = "fat-tree"\nk = 4\n'
ROFT = '[topology]\nkind = "roft"\ngpus = 64\n'
LEAF_SPINE = '[topology]\nkind = "leaf-spine"\nleaves = 100000\nspines = 100000\nhosts_per_leaf = 1\n'
TRAINING = '[workload]\nkind = "training"\npreset = "gpt-7b"\nparallel = { tp = 8, dp = 4, pp = 2 }\n'
MODEL = TRAINING.replace('preset = "gpt-7b"\n', "") + "[workload.model]\nlayers = 4\nhidden = 64\n"
RING = (
    '[workload]\nkind = "collectives"\n[[workload.collective]]\nname = "ring"\noperation = "all-reduce"\nsize = "4MB"\n'
)
PLANNED = RING.replace('"collectives"\n', '"collectives"\ngpu = "h100"\n')


def parse(text: str) -> Config:
    return config_from_dict(tomllib.loads(text))


def message(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert caught.value.exit_status == 2
    return str(caught.value)


def test_defaults_are_those_of_the_papers() -> None:
    config = parse(ROFT + TRAINING)
    network = config.network
    assert (network.payload_bytes, network.header_bytes, network.ack_bytes) == (1000, 48, 60)
    assert (network.congestion_control, network.compatibility, network.window) == ("dctcp", "none", "auto")
    assert (network.buffer.size, network.has_pfc, network.transport, network.ns3) == ("unlimited", False, None, None)
    assert network.law_parameters() == {"dctcp": {}}
    assert (config.simulation.seed, config.simulation.iterations, config.simulation.stop_time_ps) == (1, 1, None)
    assert (config.wormhole.mode, config.output.dir) == ("off", "results")
    assert (config.partition.delay_threshold_ps, config.partition.placement) == (None, "auto")


def test_quantities_are_ints_in_the_unit_of_their_name() -> None:
    config = parse(ROFT + 'nic_rate = "400Gbps"\nspine_delay = "2us"\n' + TRAINING)
    assert isinstance(config.topology, RoftConfig)
    assert config.topology.nic_rate_bps == config.topology.spine_rate_bps == 4 * 10**11
    assert (config.topology.nic_delay_ps, config.topology.spine_delay_ps) == (500_000, 2_000_000)
    assert isinstance(config.workload, TrainingConfig)
    assert config.workload.tp_model.bandwidth_bps == 230 * 8 * 10**9
    assert config.workload.compute.peak_flops == 312 * 10**12
    assert config.workload.n_microbatch == 2


def test_host_links_are_like_the_others_unless_given() -> None:
    same = parse(FAT_TREE + 'link_rate = "400Gbps"\nlink_delay = "2us"\n' + RING).topology
    other = parse(FAT_TREE + 'link_rate = "400Gbps"\nhost_rate = "100Gbps"\n' + RING).topology
    assert isinstance(same, FatTreeConfig) and isinstance(other, FatTreeConfig)
    assert (same.host_rate_bps, same.host_delay_ps) == (4 * 10**11, 2 * 10**6)
    assert (other.host_rate_bps, other.link_rate_bps) == (10**11, 4 * 10**11)


@pytest.mark.parametrize(("oversubscription", "n_host"), [("1", 16), ("1.0", 16), ("1.5", 24), ("2", 32)])
def test_hosts_of_a_fat_tree_follow_from_its_oversubscription(oversubscription: str, n_host: int) -> None:
    topology = parse(FAT_TREE + f"oversubscription = {oversubscription}\n" + RING).topology
    assert topology.n_host == n_host


def test_all_faults_are_in_one_report_each_with_its_key() -> None:
    text = message(
        '[simulation]\nsed = 3\niterations = 0\n[topology]\nkind = "fat-tree"\nk = 8\nlink_rte = "10Gbps"\n'
        'link_delay = "10Gbps"\n[network]\nack_class = "data"\n[network.buffer]\nsiez = "1MB"\n'
        '[workload]\nkind = "flow"\n[wormhole]\nmode = "fast"\n[partion]\nplacement = "metis"\n'
    )
    assert "10 faults" not in text and "9 faults" in text
    for expected in (
        'config.toml: [simulation] sed: unknown key. Did you mean "seed"?',
        "config.toml: [simulation] iterations: found 0. Accepted: at least 1",
        'config.toml: [topology] link_rte: unknown key. Did you mean "link_rate"?',
        'config.toml: [topology] link_delay: found "10Gbps", which has the unit "Gbps". Accepted: a duration',
        'config.toml: [network] ack_class: "data" is not available in this version. Accepted: "own"',
        'config.toml: [network.buffer] siez: unknown key. Did you mean "size"?',
        'config.toml: [workload] kind: found "flow". Accepted: kind = "flows", "poisson", "collectives", "training"',
        'config.toml: [wormhole] mode: found "fast". Accepted: "off", "exact", "auto" or "flow"',
        'config.toml: [partion]: unknown table. Did you mean "partition"?',
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "[topology]: this table is missing"),
        (FAT_TREE, "[workload]: this table is missing"),
        ("topology = 3\n" + RING, "[topology]: found 3. Accepted: a table"),
        (RING + "[topology]\nk = 4\n", "[topology] kind: missing"),
        (RING + '[topology]\nkind = "fat-tree"\n', "[topology] k: missing, and it has no default"),
        (RING + '[topology]\nkind = "fat-tree"\nk = 5\n', "[topology] k: found 5. Accepted: an even number"),
        (RING + '[topology]\nkind = "fat-tree"\nk = "4"\n', '[topology] k: found "4". Accepted: a whole number'),
        (RING + '[topology]\nkind = "fat-tree"\nk = 4.0\n', "[topology] k: found 4.0. Accepted: a whole number"),
        (RING + '[topology]\nkind = "fat-tree"\nk = true\n', "[topology] k: found true. Accepted: a whole number"),
        (FAT_TREE + "link_rate = 100\n" + RING, "[topology] link_rate: found 100, which is not text"),
        (FAT_TREE + 'link_delay = "0us"\n' + RING, '[topology] link_delay: found "0us". Accepted: a value above zero'),
        (FAT_TREE + "oversubscription = 1.3\n" + RING, "gives 2.6 hosts per edge switch"),
        (FAT_TREE + "oversubscription = nan\n" + RING, "[topology] oversubscription: found nan"),
        (RING + '[topology]\nkind = "roft"\ngpus = 12\n', "a multiple of gpus_per_server = 8"),
        (FAT_TREE + RING + '[partition]\ndelay_threshold = "0ns"\n', '[partition] delay_threshold: found "0ns"'),
        (FAT_TREE + RING + '[partition]\ndelay_threshold = "fast"\n', 'Accepted: "auto", or a duration'),
        (
            FAT_TREE + RING + 'algorithm = "tree"\n',
            "algorithm: is there, but [workload] gpu is not. Accepted: with a GPU",
        ),
        (
            FAT_TREE + RING.replace("[workload]\n", "[workload]\ncross_rail_rings = true\n"),
            "[workload] cross_rail_rings: is true, but gpu is not there. Accepted: with gpu",
        ),
        (FAT_TREE + PLANNED + 'algorithm = "star"\n', 'algorithm: found "star". Accepted: "auto", "ring", "tree"'),
        (FAT_TREE + PLANNED + "channels = 0\n", "channels: found 0. Accepted: at least 1"),
        (FAT_TREE + PLANNED + 'msccl = "none.xml"\n', "msccl: there is no file"),
        (FAT_TREE + RING.replace("all-reduce", "broadcast"), 'operation: found "broadcast". Accepted: with [workload]'),
        (FAT_TREE + RING + "gpus = [0, 16]\n", "[[workload.collective]] 1: gpus: names GPU 16. Accepted: 0 to 15"),
        (FAT_TREE + RING + "gpus = [0, 0]\n", "Accepted: each GPU once"),
        (FAT_TREE + RING + "gpus = [0, true]\n", 'Accepted: "all" or a list of GPU numbers'),
        (FAT_TREE + RING + "gpus = [3]\n", "names 1 GPU. Accepted: at least two"),
        (FAT_TREE + RING + 'after = ["ring"]\n', '"ring" waits'),
        (FAT_TREE + RING + 'after = ["tree"]\n', 'after: found "tree". Accepted: names of collectives (ring)'),
        (FAT_TREE + RING.replace("all-reduce", "point-to-point"), "names 16 GPUs. Accepted: two"),
        (FAT_TREE + RING + RING.partition("\n[[")[1] + RING.partition("\n[[")[2], '"ring" is there twice'),
        (FAT_TREE + TRAINING, "= 64, but [topology] has 16 GPUs. Accepted: sizes whose product is 16"),
        (
            ROFT + TRAINING.replace('preset = "gpt-7b"\n', ""),
            "[workload] preset: is missing, and so is [workload.model]",
        ),
        (ROFT + TRAINING + "[workload.model]\nlayers = 3\nhidden = 12\n", "and so is [workload.model]"),
        (ROFT + TRAINING + "[workload.model]\nlayers = 3\nhidden = 12\n", "[workload.model] layers: found 3"),
        (ROFT + TRAINING + "[workload.model]\nlayers = 3\nhidden = 12\n", "[workload.model] hidden: found 12"),
        (ROFT + TRAINING.replace("gpt-7b", "gpt-8b"), 'preset: found "gpt-8b". Accepted: "gpt-7b", "gpt-13b"'),
        (
            ROFT + TRAINING.replace(" }", ", ep = 5 }"),
            "[workload.parallel] ep: found 5. Accepted: a divisor of tp * dp = 8 * 4, the GPUs of a pipeline stage",
        ),
        (
            ROFT + MODEL.replace(" }", ", ep = 2 }"),
            "[workload.parallel] ep: found 2, and [workload.model] experts is 1. Accepted: 1 for a dense model",
        ),
        (
            ROFT + MODEL.replace(" }", ", ep = 8 }") + "experts = 12\n",
            "[workload.parallel] ep: found 8, and [workload.model] experts is 12. Accepted: a divisor of 12",
        ),
        (ROFT + MODEL + "experts = 2\ntop_k = 3\n", "[workload.model] top_k: found 3. Accepted: 1 to 2, the experts"),
        (ROFT + TRAINING.replace(", pp = 2", ""), "[workload.parallel] pp: missing"),
        (
            FAT_TREE.replace("k = 4", "k = 512") + RING,
            "[topology] k: makes 33,554,432 hosts. Accepted: at most 1,048,576",
        ),
        (ROFT.replace("gpus = 64", "gpus = 100000000") + RING, "[topology] gpus: makes 100,000,000 hosts"),
        (ROFT + 'spine_rate = "1bps"\n' + RING, "[topology] spine_rate: makes 6,400,000,000,008 links between rail"),
        (FAT_TREE + RING.replace("4MB", "2000TB"), "size: found 2000000000000000 bytes. Accepted: at most 10000"),
        (LEAF_SPINE + RING, "[topology] spines: makes 10,000,000,000 links between leaves and spines"),
        (FAT_TREE + '[workload]\nkind = "flows"\nfile = "no.csv"\n', "[workload] file: there is no file no.csv"),
    ],
)
def test_a_fault_is_placed_and_explained(text: str, expected: str) -> None:
    assert expected in message(text)


def test_collectives_may_wait_for_each_other_in_any_order() -> None:
    second = '[[workload.collective]]\nname = "next"\noperation = "all-to-all"\nsize = "1MB"\nstart = "1ms"\n'
    config = parse(FAT_TREE + RING + 'after = ["next"]\n' + second)
    assert [collective.name for collective in config.workload.collective] == ["ring", "next"]  # pyright: ignore


def test_a_file_of_unknown_size_accepts_any_parallel_sizes(tmp_path: Path) -> None:
    (tmp_path / "topology.txt").touch()
    (tmp_path / "c.toml").write_text('[topology]\nkind = "file"\nfile = "topology.txt"\n' + TRAINING)
    config = load_config(tmp_path / "c.toml")
    assert config.input_path("topology.txt") == tmp_path / "topology.txt"
    assert config.source == tmp_path / "c.toml"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[topology\n", "line 1, column 10: is not TOML"),
        (b"[topology]\nk = 4\nk = 5\n", "line 3"),
        (b"[topology]\nlink_rate = 100Gbps\n", "line 2"),
        (b"k = ", "is not TOML"),
        (b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_a_file_that_is_not_toml_is_placed_by_line(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(path) in str(caught.value) and expected in str(caught.value)


def test_a_missing_config_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_config(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)


@pytest.fixture
def ring_file(tmp_path: Path) -> Path:
    path = tmp_path / "ring.toml"
    path.write_text(FAT_TREE + RING)
    return path


def test_overrides_replace_and_add_single_keys(ring_file: Path) -> None:
    overrides = ["topology.k=8", "topology.link_rate=400Gbps", 'output.dir="a b"', "network.dctcp.gain=0.5"]
    config = load_config(ring_file, [*overrides, "workload.collective.0.size=1MB", "simulation.stop_time=10ms"])
    topology = config.topology
    assert isinstance(topology, FatTreeConfig) and (topology.k, topology.link_rate_bps) == (8, 4 * 10**11)
    assert (config.output.dir, config.network.dctcp) == ("a b", {"gain": 0.5})
    assert config.workload.collective[0].size_bytes == 10**6  # pyright: ignore
    assert config.simulation.stop_time_ps == 10**10


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("topology.k", "--set topology.k: is not an assignment. Accepted: table.key=value, such as"),
        ("k=3", "names no table"),
        ("topology..k=3", "is not an assignment"),
        ("topology.k.x=3", '"k" is a value, not a table'),
        ("workload.collective.7.size=1MB", '"7" is no position. Accepted: 0 to 0'),
        ("workload.collective.0=1", "replaces a whole element"),
        ("topology.kk=3", '--set topology.kk: unknown key. Did you mean "k"?'),
        ("topology.k=2024-01-01", '--set topology.k: found "2024-01-01". Accepted: a whole number'),
        ("workload.collective.0.size=1Mb", "--set workload.collective.0.size: found"),
    ],
)
def test_a_bad_override_is_named_as_it_was_given(ring_file: Path, override: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(ring_file, [override])
    assert expected in str(caught.value)


def test_resolved_holds_what_determines_the_result_and_nothing_else(ring_file: Path) -> None:
    plain = load_config(ring_file).resolved()
    same = load_config(ring_file, ["output.dir=elsewhere", "partition.placement=block"]).resolved()
    other = load_config(ring_file, ["simulation.seed=2"]).resolved()
    assert json.dumps(plain) == json.dumps(same) == json.dumps(plain, sort_keys=True)
    assert plain != other
    assert plain["topology"]["host_rate_bps"] == 10**11
    assert "output" not in plain and plain["partition"] == {"delay_threshold_ps": None}


def test_a_config_is_immutable_and_survives_pickling(ring_file: Path) -> None:
    config = load_config(ring_file)
    with pytest.raises(ValueError, match="frozen"):
        config.simulation.seed = 2  # pyright: ignore
    copy = pickle.loads(pickle.dumps(config))
    assert copy == config and copy.source == ring_file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FAT_TREE + RING + "[network]\nlink_rate = 3\n", "? It is a key of [topology]"),
        (ROFT + MODEL + "[parallel]\ntp = 8\n", "unknown table. It goes below another table: [workload.parallel]"),
        (
            FAT_TREE + RING.replace("[[", "[").replace("]]", "]"),
            "collective: is one table. Accepted: a list of tables, each under [[workload.collective]]",
        ),
        (FAT_TREE + RING + "[output]\nflows = 1\n", "[output] flows: found 1. Accepted: true or false"),
        (FAT_TREE + 'link_rate = "100gbps"\n' + RING, 'Did you mean "100Gbps"?'),
        (FAT_TREE + 'link_rate = "100 Gbit/s"\n' + RING, 'Did you mean "100Gbps"?'),
        (FAT_TREE + 'link_rate = "100G"\n' + RING, 'Did you mean "100Gbps"?'),
        (FAT_TREE + 'link_delay = "3 usec"\n' + RING, 'Did you mean "3us"?'),
        (FAT_TREE + RING + '[network]\npayload = "1500 bytes"\n', 'Did you mean "1500B"?'),
        (FAT_TREE + RING + '[network]\npayload = "4K"\n', 'Did you mean "4kB"?'),
    ],
)  # fmt: skip
def test_what_a_new_user_gets_wrong_is_answered_with_what_was_meant(text: str, expected: str) -> None:
    assert expected in message(text)


@pytest.mark.parametrize("unit", ["GBytes/s", "GB", "apples"])
def test_a_unit_that_could_be_several_is_not_guessed(unit: str) -> None:
    assert "Did you mean" not in message(FAT_TREE + f'link_rate = "100{unit}"\n' + RING)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[topology]\nk = 4\n[topology]\n", "the table [topology] is there twice: put its keys together"),
        ("[network]\necn = yes\n", "yes and no are true and false"),
    ],
)
def test_what_is_no_toml_is_said_in_words(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ConfigError, match=expected.replace("[", r"\[")):
        load_config(tmp_path / "bad.toml")


def test_a_file_that_is_not_there_may_be_spelled_like_another(tmp_path: Path) -> None:
    (tmp_path / "quickstart.toml").write_text("")
    with pytest.raises(ConfigError, match=r"quikstart.toml: cannot be read.*Did you mean \".*/quickstart.toml\"\?"):
        load_config(tmp_path / "quikstart.toml")


@pytest.mark.parametrize(("key", "most"), [("layers", 2**14), ("hidden", 2**20), ("sequence", 2**26)])
def test_a_model_beyond_all_models_is_refused(tmp_path: Path, key: str, most: int) -> None:
    """Products of such sizes would pass 64 bits, or take for ever to plan."""
    path, sizes = tmp_path / "config.toml", {"layers": 4, "hidden": 256, "sequence": 128} | {key: most + 1}
    model = "".join(f"{name} = {value}\n" for name, value in sizes.items())
    path.write_text(
        '[topology]\nkind = "roft"\ngpus = 8\n[workload]\nkind = "training"\n[workload.parallel]\ntp = 2\ndp = 4\n'
        f"[workload.model]\n{model}"
    )
    with pytest.raises(ConfigError, match=rf"\[workload.model\] {key}: found {most + 1}. Accepted: at most {most}"):
        load_config(path)
