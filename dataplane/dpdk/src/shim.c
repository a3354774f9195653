/* Functions over libdpdk with plain types. No layout of a DPDK struct crosses the border to Rust. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_version.h>

#define BURST 64

/* Checksums of a received frame, as the port verified them. */
#define RX_IP_GOOD 1
#define RX_IP_BAD 2
#define RX_UDP_GOOD 4
#define RX_UDP_BAD 8
/* Checksums that the port writes into a frame to send. */
#define TX_IPV4 1
#define TX_IPV6 2
/* Length of the Ethernet header, with a VLAN tag: bits 8 to 15. */
#define TX_L2_SHIFT 8

/* `struct Frame` in ffi.rs */
struct sg_frame {
    struct rte_mbuf *mbuf;
    uint8_t *data;
    uint32_t len;
    uint32_t flags;
};

/* `struct Info` in ffi.rs */
struct sg_info {
    uint16_t max_rx_queues;
    uint16_t max_tx_queues;
    uint16_t mtu;
    uint8_t mac[6];
    uint8_t rx_checksum;
    uint8_t tx_checksum;
    uint8_t rss;
    uint8_t link_up;
    char driver[32];
};

/* `struct Stats` in ffi.rs */
struct sg_stats {
    uint64_t received;
    uint64_t sent;
    uint64_t missed;
    uint64_t receive_errors;
    uint64_t no_buffer;
    uint64_t send_errors;
};

_Static_assert(sizeof(struct sg_frame) == 24, "ffi.rs");
_Static_assert(sizeof(struct sg_info) == 48, "ffi.rs");
_Static_assert(sizeof(struct sg_stats) == 48, "ffi.rs");

typedef void (*sg_log)(const char *bytes, size_t len);

static ssize_t write_log(void *cookie, const char *bytes, size_t len) {
    (*(sg_log *)cookie)(bytes, len);
    return (ssize_t)len;
}

int sg_eal_init(int argc, char **argv, sg_log log) {
    static sg_log kept;
    kept = log;
    cookie_io_functions_t functions = { .write = write_log };
    FILE *stream = fopencookie(&kept, "w", functions);
    if (stream == NULL || rte_openlog_stream(stream) != 0)
        return -1;
    return rte_eal_init(argc, argv);
}

int sg_eal_cleanup(void) { return rte_eal_cleanup(); }

const char *sg_version(void) { return rte_version(); }

int sg_errno(void) { return rte_errno; }

int sg_thread_register(void) { return rte_thread_register(); }

void sg_thread_unregister(void) { rte_thread_unregister(); }

/* Has a library that is loaded write nothing to the terminal. */
static void silence(const char *library, const char *set_print) {
    void *loaded = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (loaded == NULL)
        return;
    void *(*set)(void *) = NULL;
    *(void **)&set = dlsym(loaded, set_print);
    if (set != NULL)
        set(NULL);
    dlclose(loaded);
}

/* Attaches a device. What the driver of AF_XDP needs writes hints to the terminal; its errors are in the library's log. */
int sg_probe(const char *devargs) {
    silence("libbpf.so.1", "libbpf_set_print");
    silence("libxdp.so.1", "libxdp_set_print");
    return rte_dev_probe(devargs);
}

/* Returns the port that a device became, or -1. */
int sg_port_named(const char *name) {
    uint16_t port;
    return rte_eth_dev_get_port_by_name(name, &port) == 0 ? port : -1;
}

int sg_port_info(uint16_t port, struct sg_info *out) {
    struct rte_eth_dev_info info;
    struct rte_ether_addr mac;
    struct rte_eth_link link;
    int result = rte_eth_dev_info_get(port, &info);
    if (result == 0)
        result = rte_eth_macaddr_get(port, &mac);
    if (result != 0)
        return result;
    memset(out, 0, sizeof *out);
    memset(&link, 0, sizeof link);
    out->max_rx_queues = info.max_rx_queues;
    out->max_tx_queues = info.max_tx_queues;
    rte_eth_dev_get_mtu(port, &out->mtu);
    memcpy(out->mac, mac.addr_bytes, sizeof out->mac);
    uint64_t rx = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
    uint64_t tx = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    out->rx_checksum = (info.rx_offload_capa & rx) == rx;
    out->tx_checksum = (info.tx_offload_capa & tx) == tx;
    out->rss = (info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP)) != 0;
    out->link_up = rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
    strncpy(out->driver, info.driver_name, sizeof out->driver - 1);
    return 0;
}

/* Configures `queues` queue pairs with the offloads that the port has. `mtu` 0 keeps the port's. */
int sg_port_configure(uint16_t port, uint16_t queues, uint16_t mtu) {
    struct rte_eth_conf conf;
    struct rte_eth_dev_info info;
    int result = rte_eth_dev_info_get(port, &info);
    if (result != 0)
        return result;
    memset(&conf, 0, sizeof conf);
    uint64_t rx = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
    uint64_t tx = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    if ((info.rx_offload_capa & rx) == rx)
        conf.rxmode.offloads |= rx;
    if ((info.tx_offload_capa & tx) == tx)
        conf.txmode.offloads |= tx;
    uint64_t rss = info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
    if (queues > 1 && rss != 0) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = rss;
    }
    if (mtu != 0)
        conf.rxmode.mtu = mtu;
    result = rte_eth_dev_configure(port, queues, queues, &conf);
    if (result == 0 && mtu != 0)
        result = rte_eth_dev_set_mtu(port, mtu);
    return result;
}

int sg_queue_setup(uint16_t port, uint16_t queue, uint16_t rx, uint16_t tx, struct rte_mempool *pool) {
    int node = rte_eth_dev_socket_id(port);
    int result = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx);
    if (result == 0)
        result = rte_eth_rx_queue_setup(port, queue, rx, node, NULL, pool);
    if (result == 0)
        result = rte_eth_tx_queue_setup(port, queue, tx, node, NULL);
    return result;
}

/* Starts a port. It receives multicast frames: of all groups where it can select that, else by receiving every frame if
   `multicast` is set, because neighbor discovery depends on them. */
int sg_port_start(uint16_t port, int multicast) {
    int result = rte_eth_dev_start(port);
    if (result == 0 && rte_eth_allmulticast_enable(port) != 0 && multicast)
        rte_eth_promiscuous_enable(port);
    return result;
}

void sg_port_stop(uint16_t port) {
    if (rte_eth_promiscuous_get(port) == 1)
        rte_eth_promiscuous_disable(port);
    rte_eth_dev_stop(port);
}

/* Closes a port and removes its device. */
void sg_port_remove(uint16_t port) {
    struct rte_eth_dev_info info;
    int known = rte_eth_dev_info_get(port, &info) == 0;
    rte_eth_dev_close(port);
    if (known && info.device != NULL)
        rte_dev_remove(info.device);
}

int sg_stats(uint16_t port, struct sg_stats *out) {
    struct rte_eth_stats stats;
    int result = rte_eth_stats_get(port, &stats);
    if (result != 0)
        return result;
    out->received = stats.ipackets;
    out->sent = stats.opackets;
    out->missed = stats.imissed;
    out->receive_errors = stats.ierrors;
    out->no_buffer = stats.rx_nombuf;
    out->send_errors = stats.oerrors;
    return 0;
}

struct rte_mempool *sg_pool_create(const char *name, uint32_t count, uint32_t cache, uint16_t room) {
    return rte_pktmbuf_pool_create(name, count, cache, 0, RTE_PKTMBUF_HEADROOM + room, SOCKET_ID_ANY);
}

uint32_t sg_pool_available(struct rte_mempool *pool) { return rte_mempool_avail_count(pool); }

void sg_pool_free(struct rte_mempool *pool) { rte_mempool_free(pool); }

uint32_t sg_headroom(void) { return RTE_PKTMBUF_HEADROOM; }

static uint32_t rx_flags(uint64_t ol) {
    uint64_t ip = ol & RTE_MBUF_F_RX_IP_CKSUM_MASK, udp = ol & RTE_MBUF_F_RX_L4_CKSUM_MASK;
    uint32_t flags = 0;
    /* NONE: the field is not right yet, and the data is intact, as between virtual machines of one host. */
    if (ip == RTE_MBUF_F_RX_IP_CKSUM_GOOD || ip == RTE_MBUF_F_RX_IP_CKSUM_NONE)
        flags |= RX_IP_GOOD;
    if (ip == RTE_MBUF_F_RX_IP_CKSUM_BAD)
        flags |= RX_IP_BAD;
    if (udp == RTE_MBUF_F_RX_L4_CKSUM_GOOD || udp == RTE_MBUF_F_RX_L4_CKSUM_NONE)
        flags |= RX_UDP_GOOD;
    if (udp == RTE_MBUF_F_RX_L4_CKSUM_BAD)
        flags |= RX_UDP_BAD;
    return flags;
}

/* Receives up to `room` frames into `out`, each in one segment with the VLAN tag that the port took out of it. */
uint16_t sg_receive(uint16_t port, uint16_t queue, struct sg_frame *out, uint16_t room) {
    struct rte_mbuf *burst[BURST];
    uint16_t received = rte_eth_rx_burst(port, queue, burst, room < BURST ? room : BURST);
    uint16_t kept = 0;
    for (uint16_t i = 0; i < received; i++) {
        struct rte_mbuf *mbuf = burst[i];
        uint64_t ol = mbuf->ol_flags;
        if (unlikely(mbuf->nb_segs > 1) && rte_pktmbuf_linearize(mbuf) != 0) {
            rte_pktmbuf_free(mbuf);
            continue;
        }
        if (unlikely(ol & RTE_MBUF_F_RX_VLAN_STRIPPED) && rte_vlan_insert(&mbuf) != 0) {
            rte_pktmbuf_free(mbuf);
            continue;
        }
        out[kept].mbuf = mbuf;
        out[kept].data = rte_pktmbuf_mtod(mbuf, uint8_t *);
        out[kept].len = mbuf->data_len;
        out[kept].flags = rx_flags(ol);
        kept++;
    }
    return kept;
}

/* Takes `count` empty buffers, or none. Their length is the room behind `data`. */
uint16_t sg_allocate(struct rte_mempool *pool, struct sg_frame *out, uint16_t count) {
    struct rte_mbuf *burst[BURST];
    if (count > BURST)
        count = BURST;
    if (rte_pktmbuf_alloc_bulk(pool, burst, count) != 0)
        return 0;
    for (uint16_t i = 0; i < count; i++) {
        out[i].mbuf = burst[i];
        out[i].data = rte_pktmbuf_mtod(burst[i], uint8_t *);
        out[i].len = rte_pktmbuf_tailroom(burst[i]);
        out[i].flags = 0;
    }
    return count;
}

/* Sends frames and returns how many the port took, from the first. `data` lies in the buffer of `mbuf`. */
uint16_t sg_send(uint16_t port, uint16_t queue, const struct sg_frame *frames, uint16_t count) {
    struct rte_mbuf *burst[BURST];
    if (count > BURST)
        count = BURST;
    for (uint16_t i = 0; i < count; i++) {
        struct rte_mbuf *mbuf = frames[i].mbuf;
        uint32_t flags = frames[i].flags;
        mbuf->data_off = (uint16_t)(frames[i].data - (uint8_t *)mbuf->buf_addr);
        mbuf->data_len = (uint16_t)frames[i].len;
        mbuf->pkt_len = frames[i].len;
        mbuf->ol_flags = 0;
        if (flags & (TX_IPV4 | TX_IPV6)) {
            mbuf->l2_len = flags >> TX_L2_SHIFT;
            mbuf->l3_len = flags & TX_IPV4 ? 20 : 40;
            mbuf->ol_flags = RTE_MBUF_F_TX_UDP_CKSUM;
            mbuf->ol_flags |= flags & TX_IPV4 ? RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM : RTE_MBUF_F_TX_IPV6;
        }
        burst[i] = mbuf;
    }
    return rte_eth_tx_burst(port, queue, burst, count);
}

void sg_free(struct rte_mbuf *mbuf) { rte_pktmbuf_free(mbuf); }
