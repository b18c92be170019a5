"""EtherSpanTree: a switch of this program and a bridge of Linux, connected by two links."""

from harness import Plain, Router, Skip, case, check, equal, ping, wait_for
from lab import Lab

CONFIG = """
tree :: EtherSpanTree(MAC, in, out, sw); in, out :: Suppressor; sw :: EtherSwitch;
elementclass Port { $dev, $i |
  FromDevice($dev, PROMISC true) -> c :: Classifier(14/4242, -) => [0] output, [1] output;
  input -> Queue -> ToDevice($dev);
}
p0 :: Port(eth0, 0) -> tree -> p0; p0 [1] -> in -> sw -> out -> p0;
p1 :: Port(eth1, 1) -> [1] tree [1] -> p1; p1 [1] -> [1] in [1] -> [1] sw [1] -> [1] out [1] -> p1;
p2 :: Port(eth2, 2) -> [2] tree [2] -> p2; p2 [1] -> [2] in [2] -> [2] sw [2] -> [2] out [2] -> p2;
"""


@case(Plain, seconds=120)
def a_loop_with_a_bridge_of_linux_carries_each_frame_once(lab: Lab) -> None:
    gate, bridge, near, far = (lab.namespace(name) for name in ("g", "b", "n", "f"))
    lab.veth(gate, "eth0", bridge, "port0")
    lab.veth(gate, "eth1", bridge, "port1")
    lab.veth(gate, "eth2", near, "eth0")
    lab.veth(far, "eth0", bridge, "port2")
    # The shortest times that 802.1D allows: a port forwards after 8 seconds.
    try:
        bridge.ip("link", "add", "br0", "type", "bridge", "stp_state", "1", "priority", "4096", "forward_delay", "400", "hello_time", "100",
                  "max_age", "600")
    except Exception as error:
        raise Skip(f"no bridges here: {error}") from None
    for i in range(3):
        bridge.ip("link", "set", f"port{i}", "master", "br0")
    bridge.ip("link", "set", "br0", "up")
    near.ip("addr", "add", "10.9.0.1/24", "dev", "eth0")
    far.ip("addr", "add", "10.9.0.2/24", "dev", "eth0")
    conf = lab.dir / "tree.click"
    conf.write_text(CONFIG.replace("MAC", gate.mac("eth0")))
    router = Router(lab, gate, conf)
    # The bridge has the better priority, so one of the two links is blocked on this side.
    wait_for("the tree", lambda: sorted(router.read("tree.ports").split()) == ["block", "forward", "forward"], 60)
    wait_for("a ping", lambda: ping(near, "10.9.0.2"), 20)
    out = near.sh("ping", "-c", "20", "-i", "0.02", "10.9.0.2")
    check(" 0% packet loss" in out and "duplicates" not in out, out)
    # The link that carries them is cut; the other one takes its place.
    blocked = router.read("tree.ports").split().index("block")
    bridge.ip("link", "set", f"port{1 - blocked}", "down")
    wait_for("the other way", lambda: ping(near, "10.9.0.2"), 60)
    equal(router.read("tree.ports").split()[blocked], "forward", "the port that was blocked")
