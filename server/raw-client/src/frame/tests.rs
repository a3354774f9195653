use super::*;

#[test]
fn every_frame_is_read_as_it_was_written() {
    let frames = [
        Frame::Ping,
        Frame::Padding(3),
        Frame::Ack { largest: 70, delay: 1, first: 2, ranges: vec![(0, 1), (64, 0)] },
        Frame::ResetStream { stream: 0, code: 0x10c, size: 5 },
        Frame::StopSending { stream: 4, code: 1 },
        Frame::Crypto { offset: 7, data: vec![1, 2] },
        Frame::NewToken(vec![9; 70]),
        Frame::Stream { stream: 8, offset: 100, data: vec![3; 90], fin: true },
        Frame::MaxData(1 << 40),
        Frame::MaxStreamData { stream: 2, max: 3 },
        Frame::MaxStreams { bidirectional: true, max: 9 },
        Frame::DataBlocked(1),
        Frame::StreamDataBlocked { stream: 1, limit: 2 },
        Frame::StreamsBlocked { bidirectional: false, limit: 2 },
        Frame::NewConnectionId { sequence: 3, retire_prior_to: 1, id: vec![5; 8], token: [6; 16] },
        Frame::RetireConnectionId(2),
        Frame::PathChallenge([1; 8]),
        Frame::PathResponse([2; 8]),
        Frame::Close { application: false, code: 10, reason: b"why".to_vec() },
        Frame::Close { application: true, code: 0x100, reason: Vec::new() },
        Frame::HandshakeDone,
    ];
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.write(&mut bytes));
    let mut reader = Reader(&bytes);
    for frame in frames {
        assert_eq!(Frame::read(&mut reader), Some(frame));
    }
    assert!(reader.is_empty());
    assert_eq!(Frame::read(&mut Reader(&[0x1f])), None);
}
