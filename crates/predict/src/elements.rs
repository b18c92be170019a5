//! Elements that only a prediction uses: one that records what passes, one that plays it, one where it ends.

use crate::recording::Recording;
use crate::stream::{Shared, Stream, find};
use dpdk::KeptPacket;
use locks::IgnorePoison;
use runtime::{
    ArgError, Args, Batch, Class, ConfigCx, Cx, Element, Fields, Notify, Packet, Registry, Sharing, Vector,
    vector,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The most outputs of an element that can be measured alone.
pub(crate) const MOST_OUTPUTS: usize = 16;

/// The names of the classes of [`Sink`]: one for each output.
const SINKS: [&str; MOST_OUTPUTS] = [
    "PredictSink0",
    "PredictSink1",
    "PredictSink2",
    "PredictSink3",
    "PredictSink4",
    "PredictSink5",
    "PredictSink6",
    "PredictSink7",
    "PredictSink8",
    "PredictSink9",
    "PredictSink10",
    "PredictSink11",
    "PredictSink12",
    "PredictSink13",
    "PredictSink14",
    "PredictSink15",
];

/// Adds the classes. The sink for each output counts as reading these annotations, as what is downstream of
/// that output in the configuration does.
pub(crate) fn register(registry: &mut Registry, read: &[Fields]) {
    registry.add(vector::<Tap>());
    registry.add(vector::<Replay>());
    for (output, name) in SINKS.into_iter().enumerate() {
        let mut class: Class = vector::<Sink>();
        class.facts.name = name;
        class.facts.reads = read.get(output).copied().unwrap_or(Fields::NONE);
        registry.add(class);
    }
}

/// The class of the sink for an output.
pub(crate) fn sink(output: usize) -> &'static str {
    SINKS[output.min(MOST_OUTPUTS - 1)]
}

fn found(args: &mut Args<'_>) -> Result<Shared, ArgError> {
    let number: u64 = args.p("STREAM")?.unwrap_or(0);
    find(number).ok_or_else(|| ArgError::new("no such stream"))
}

/// Records what goes to input `INPUT` of an element, whose number is `TO`, from the element `FROM`.
struct Tap {
    stream: Arc<Mutex<Stream>>,
    input: usize,
    recording: Arc<Recording>,
    between: (usize, usize),
    /// Whether the packets come from a source.
    first: bool,
}

impl Tap {
    fn record(&self, packets: &[Packet]) {
        self.recording.passed(self.between.0, self.between.1, packets.len());
        if self.recording.is_on() {
            if self.first {
                self.recording.look();
            }
            self.stream.lock().ignore_poison().add(self.input, packets.iter().map(Packet::keep));
        }
    }
}

impl Element for Tap {
    const CLASS: &'static str = "PredictTap";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = "";

    fn configure(args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let Shared { stream, recording } = found(args)?;
        let recording = recording.ok_or_else(|| ArgError::new("this stream is not recorded"))?;
        let mut number = |name| Ok::<_, ArgError>(args.p::<u32>(name)?.unwrap_or(0) as usize);
        let (input, from, to) = (number("INPUT")?, number("FROM")?, number("TO")?);
        let first = args.p("FIRST")?.unwrap_or(false);
        Ok(Self { stream, input, recording, between: (from, to), first })
    }
}

impl Vector for Tap {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.record(&batch);
        cx.output_batch(0, batch);
    }
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        cx.pull(0, max, out);
        self.record(&out[before..]);
    }
}

/// Packets that wait, first in, first out: those that leave a queue are no longer in the processor's nearest
/// cache, and neither are buffers that have waited to be used again.
#[derive(Default)]
struct Held {
    packets: VecDeque<Packet>,
    most: usize,
}

impl Held {
    /// Puts packets in, and takes as many out, or none while fewer wait than shall.
    fn exchange(&mut self, batch: &mut Batch) {
        if self.most == 0 {
            return;
        }
        self.packets.extend(batch.drain(..));
        let out = self.packets.len().saturating_sub(self.most);
        batch.extend(self.packets.drain(..out));
    }
}

/// Memory that is read so that the processor's caches lose what they held: as much as other elements would
/// use meanwhile.
struct Others {
    memory: Vec<u8>,
    /// Bytes for each packet.
    bytes: usize,
    at: usize,
}

impl Others {
    /// The most for a batch.
    const MOST: usize = 2 << 20;

    /// So many bytes for each packet, of so many.
    fn new(bytes: usize, among: usize) -> Self {
        Self { memory: vec![1; if bytes > 0 { among.max(LINE) } else { 0 }], bytes, at: 0 }
    }
    fn read(&mut self, packets: usize) {
        if self.memory.is_empty() {
            return;
        }
        let mut sum = 0u8;
        for _ in 0..(packets * self.bytes).min(Self::MOST) / LINE {
            self.at = if self.at + LINE < self.memory.len() { self.at + LINE } else { 0 };
            sum = sum.wrapping_add(self.memory[self.at]);
        }
        std::hint::black_box(sum);
    }
}

/// Bytes of memory that a processor's caches do not hold.
const MORE_THAN_CACHES: usize = 16 << 20;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Emits the batches of a stream again and again, each by the output with the number of its input then.
/// Before that, packets wait until there are `HOLD` of them; and for each packet, `OTHERS` bytes of other
/// memory are read.
struct Replay {
    batches: Vec<(usize, Vec<KeptPacket>)>,
    at: usize,
    held: Vec<Held>,
    others: Others,
}

impl Element for Replay {
    const CLASS: &'static str = "PredictReplay";
    const PORTS: &'static str = "0/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Single;
    const READS: Fields = Fields::NONE;
    const MANUAL: &'static str = "";

    fn configure(args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let stream = found(args)?.stream;
        let batches = stream.lock().ignore_poison().batches.clone();
        let most = args.p::<u32>("HOLD")?.unwrap_or(0) as usize;
        let outputs = batches.iter().map(|(output, _)| output + 1).max().unwrap_or(0);
        let held = (0..outputs).map(|_| Held { most, ..Held::default() }).collect();
        let others = Others::new(args.p::<u32>("OTHERS")?.unwrap_or(0) as usize, MORE_THAN_CACHES);
        Ok(Self { batches, at: 0, held, others })
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        cx.reschedule();
        let Some((output, packets)) = self.batches.get(self.at) else { return false };
        self.at = if self.at + 1 < self.batches.len() { self.at + 1 } else { 0 };
        if !cx.downstream_room(*output) {
            return false;
        }
        let mut batch = cx.spare_batch();
        self.others.read(packets.len());
        batch.extend(packets.iter().map_while(KeptPacket::packet));
        self.held[*output].exchange(&mut batch);
        cx.output_batch(*output, batch);
        true
    }
}

impl Vector for Replay {}

/// Takes packets, by pull as many at once as `BURST` says, and lets `HOLD` of them wait; for each packet,
/// `OTHERS` bytes of other memory are read, among `AMONG` of them.
struct Sink {
    burst: usize,
    held: Held,
    others: Others,
}

impl Element for Sink {
    const CLASS: &'static str = "PredictSink";
    const PORTS: &'static str = "1/0";
    const SHARING: Sharing = Sharing::PerWorker;
    const NOTIFY: Notify = Notify::None;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = "";

    fn configure(args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let burst = args.p::<u32>("BURST")?.unwrap_or(1).max(1) as usize;
        let most = args.p::<u32>("HOLD")?.unwrap_or(0) as usize;
        let mut bytes = |name| Ok::<_, ArgError>(args.p::<u32>(name)?.unwrap_or(0) as usize);
        let others = Others::new(bytes("OTHERS")?, bytes("AMONG")?);
        Ok(Self { burst, held: Held { most, ..Held::default() }, others })
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.input_is_pull(0) {
            cx.reschedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut batch = cx.spare_batch();
        let pulled = cx.pull(0, self.burst, &mut batch);
        self.held.exchange(&mut batch);
        self.others.read(pulled);
        cx.recycle(batch);
        if pulled > 0 || cx.upstream_active(0) {
            cx.reschedule();
        }
        pulled > 0
    }
}

impl Vector for Sink {
    #[inline]
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.others.read(batch.len());
        self.held.exchange(&mut batch);
        cx.recycle(batch);
    }
}
