use crate::testing::{file, load, parse, router};

#[test]
fn the_digest_is_about_what_nodes_must_agree_on() {
    let digest = |text: &str, program: &str| {
        let cluster = parse(text).unwrap();
        load(&cluster, program).unwrap().digest().to_owned()
    };
    let program = router(4);
    let first = digest(&file(4, |t| t), &program);
    assert_eq!(first.len(), 32);
    let same = file(4, |t| {
        format!("# a comment\n{}", t.replace("eth1", "eth7").replace("id = 2", "id = 2\nnetns = \"x\""))
    });
    assert_eq!(digest(&same, &program), first);
    let node_of_its_own = file(4, |t| t.replace("rate = \"1Gbps\"", "rate = \"2Gbps\""));
    assert_ne!(digest(&node_of_its_own, &program), first);
    assert_ne!(digest(&file(4, |t| t), &program.replace("Queue(1000)", "Queue(100)")), first);
}

#[test]
fn programs_that_cannot_be_split() {
    let cluster = parse(&file(2, |t| t)).unwrap();
    let refused = |program: &str| load(&cluster, program).map(drop).unwrap_err();
    let base = router(2);

    let message = refused(
        &base
            .replace("arpq1 :: ARPQuerier($IP1, $MAC1) -> out1;", "arpq1 :: Null -> out1;")
            .replace("c1[1] -> [1]arpq1", "c1[1] -> Discard"),
    );
    assert!(message.contains("ToDevice of port 1 (eth1 of node 1) is not behind an ARPQuerier"), "{message}");

    let message = refused(&(base.clone() + "\narpq0[1] -> out1;\n"));
    assert!(message.contains("port 1 (eth1 of node 1) is behind several ARPQueriers"), "{message}");

    let shared = "FromDevice($DEV0) -> Strip(14) -> q :: ARPQuerier($IP0, $MAC0) -> t :: Tee -> Queue -> ToDevice($DEV0);\n\
        t[1] -> Queue -> ToDevice($DEV1); FromDevice($DEV1) -> [1]q;\n\
        define($IP0 1.0.0.1, $MAC0 2:0:0:0:0:1, $DEV0 a, $DEV1 b);";
    let message = refused(shared);
    assert!(message.contains("packets from 'q' can reach the devices of port 0 and of port 1"), "{message}");

    let message = refused(&base.replace("Device($DEV1)", "Device(eth9)"));
    assert!(
        message.contains("'eth9' is not a port of the cluster file")
            && message.contains("the program has no FromDevice for port 1"),
        "{message}"
    );

    let message = refused(&base.replace("rt[3] -> Discard", "cluster :: Null; rt[3] -> cluster -> Discard"));
    assert!(message.contains("'cluster' is a name that `valiant cluster` uses"), "{message}");

    let two_tables = "\nIdle -> r :: LookupIPRoute(0/0 0) -> Discard;\n";
    let routed =
        parse(&file(2, |t| t + "[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"10.0.1.2\"\n")).unwrap();
    let message = load(&routed, &(router(2) + two_tables)).map(drop).unwrap_err();
    assert!(message.contains("no routing table for the route to 10.9.0.0/16"), "{message}");
    let named = parse(&file(2, |t| format!("table = \"tr\"\n{t}"))).unwrap();
    let message = load(&named, &(router(2) + two_tables)).map(drop).unwrap_err();
    assert!(message.contains("table = \"tr\": the program has no such routing table"), "{message}");
}
