//! A server's transport parameters, which hold three connection IDs after a Retry.

/// The most that a varint holds.
const MOST: u64 = (1 << 62) - 1;

#[test]
fn a_server_accepts_a_client_after_a_retry_with_connection_ids_of_any_length() {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.set_stateless_reset_token(Some(u128::MAX));
    config.set_max_idle_timeout(MOST);
    config.set_max_recv_udp_payload_size(65_527);
    config.set_initial_max_data(MOST);
    config.set_initial_max_stream_data_bidi_local(MOST);
    config.set_initial_max_stream_data_bidi_remote(MOST);
    config.set_initial_max_stream_data_uni(MOST);
    config.set_initial_max_streams_bidi(MOST);
    config.set_initial_max_streams_uni(MOST);
    config.set_ack_delay_exponent(20);
    config.set_max_ack_delay(16_383);
    config.set_active_connection_id_limit(MOST);
    config.set_disable_active_migration(true);
    config.enable_dgram(true, 8, 8);
    let address = "127.0.0.1:443".parse().unwrap();
    for length in 0..=20 {
        let (id, original) = (vec![1; length], vec![2; length]);
        let id = quiche::ConnectionId::from_ref(&id);
        let original = quiche::ConnectionId::from_ref(&original);
        let accepted = quiche::accept(&id, Some(&original), address, address, &mut config);
        assert!(accepted.is_ok(), "{length}: {:?}", accepted.err());
    }
}
