/*
 * reads IFACE PEER WHAT COUNT: what reads of a word of another process cost over packet sockets
 * without any protocol. WHAT is "asks" at the end that starts, and "answers" at the other one, or "both" there: it
 * asks then, too, as a rank that reads while another one reads from it. PEER is the other
 * end's MAC address.
 *
 * A frame has a request, an answer, or both. An end sends one for each that it gets, by one
 * system call, and polls the ring to which the kernel copies what arrives. Nothing is checked,
 * acknowledged, or sent again. The end that starts prints the nanoseconds of one of its
 * reads; the other one prints "ready" first, and ends with the last frame.
 */
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#define ETHERTYPE 0x88b6
#define FRAMES 1024
#define FRAME_SIZE 2048
#define BLOCK (64 << 10)

struct frame {
	uint8_t dst[6], src[6];
	uint16_t type;
	uint32_t asks, answers, last;
	uint8_t word[40]; /* an Ethernet frame has 60 bytes at least */
} __attribute__((packed));

static int sock;
static char *ring;
static struct frame out;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void start(const char *iface, const char *peer)
{
	int version = TPACKET_V2;
	struct tpacket_req r = { BLOCK, FRAMES * FRAME_SIZE / BLOCK, FRAME_SIZE, FRAMES };
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETHERTYPE) };

	sock = socket(AF_PACKET, SOCK_RAW, 0);
	at.sll_ifindex = if_nametoindex(iface);
	if (sock < 0 || setsockopt(sock, SOL_PACKET, PACKET_VERSION, &version, sizeof version) ||
	    setsockopt(sock, SOL_PACKET, PACKET_RX_RING, &r, sizeof r))
		die("packet socket");
	ring = mmap(NULL, FRAMES * FRAME_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, sock, 0);
	if (ring == MAP_FAILED || bind(sock, (void *)&at, sizeof at))
		die(iface);
	out.type = htons(ETHERTYPE);
	for (int i = 0; i < 6; i++)
		out.dst[i] = strtoul(peer + 3 * i, NULL, 16);
}

static void transmit(uint32_t asks, uint32_t answers, uint32_t last)
{
	out.asks = asks;
	out.answers = answers;
	out.last = last;
	if (send(sock, &out, sizeof out, 0) < 0)
		die("send");
}

/* next waits for the next frame, and gives back the one before. */
static struct frame *next(void)
{
	static volatile struct tpacket2_hdr *held;
	static unsigned at;
	volatile struct tpacket2_hdr *h = (void *)(ring + (size_t)(at++ % FRAMES) * FRAME_SIZE);

	if (held)
		held->tp_status = TP_STATUS_KERNEL;
	while (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
		;
	held = h;
	return (void *)((char *)h + h->tp_mac);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
	uint32_t count, done = 0, asked = 0;
	double since;
	int asks, first;

	if (argc != 5)
		return 2;
	start(argv[1], argv[2]);
	count = strtoul(argv[4], NULL, 10);
	first = !strcmp(argv[3], "asks");
	asks = strcmp(argv[3], "answers");
	if (!first && (puts("ready") < 0 || fflush(stdout)))
		die("ready");
	since = now();
	if (first)
		transmit(asked = 1, 0, 0);
	for (;;) {
		struct frame *f = next();
		uint32_t answers = f->asks, last = f->last;

		if (last)
			return 0;
		if (f->answers == asked && asked > done)
			done++;
		if (first && done == count)
			break;
		if (asks && asked == done)
			asked++;
		else if (!answers)
			continue;
		transmit(asks ? asked : 0, answers, 0);
	}
	printf("%.0f\n", (now() - since) / count);
	transmit(0, 0, 1);
	return 0;
}
