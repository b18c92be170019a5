//! The ControlSocket protocol: any bytes in any pieces give the same answers, and the session always ends.
#![no_main]

use elements::control::engine::session::{Request, Session, Step};
use libfuzzer_sys::fuzz_target;

/// Takes all steps that the input allows; replies are joined, for their borders carry no meaning.
fn drain(session: &mut Session, closed: bool, requests: &mut Vec<Request>, replies: &mut Vec<u8>) -> bool {
    loop {
        match session.step(closed) {
            Step::Wait => {
                assert!(!closed, "a closed session waits for input");
                return false;
            }
            Step::Ask(request) => requests.push(request),
            Step::Show(_) => unreachable!("no token is requested"),
            Step::Reply(bytes) => replies.extend(bytes),
            Step::Close(bytes) => {
                replies.extend(bytes);
                return true;
            }
        }
    }
}

fn talk(pieces: impl Iterator<Item = Vec<u8>>) -> (Vec<Request>, Vec<u8>) {
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    let mut session = Session::default();
    for piece in pieces {
        session.feed(&piece);
        if drain(&mut session, false, &mut requests, &mut replies) {
            return (requests, replies);
        }
    }
    drain(&mut session, true, &mut requests, &mut replies);
    (requests, replies)
}

fuzz_target!(|data: &[u8]| {
    let Some((&size, input)) = data.split_first() else { return };
    let whole = talk([input.to_vec()].into_iter());
    let pieces = talk(input.chunks(usize::from(size).max(1)).map(<[u8]>::to_vec));
    assert_eq!(whole, pieces);
});
