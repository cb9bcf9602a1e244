/*
 * relay TUN IFACE MTU: what a tunnel costs that has no protocol. It makes the TUN device TUN,
 * prints "ready", and carries packets between that and the packets of another relay on the
 * segment of IFACE, as its kernel hands them over: up to 64 KiB, cut into frames of MTU bytes,
 * which are received where the device takes the packet from. Nothing is looked up, counted,
 * acknowledged, sent again or checked, so that it only works alone on a link that loses nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define ETHERTYPE 0x88b6
#define LONGEST (65536 + 64)  /* a packet, and the kernel's header */
#define SLOTS 256             /* of received frames */
#define PIECES 64             /* of a packet at most */
#define BATCH 16              /* frames by one call */

struct head {
	uint8_t dst[6], src[6];
	uint16_t type;
	uint32_t length, from;  /* of the packet; of this piece in it */
} __attribute__((packed));

static int tun, packets, piece;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void make_tun(const char *name)
{
	struct ifreq r = { .ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR };

	strncpy(r.ifr_name, name, IFNAMSIZ - 1);
	tun = open("/dev/net/tun", O_RDWR);
	if (tun < 0 || ioctl(tun, TUNSETIFF, &r) || ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6))
		die(name);
}

static void open_packets(const char *iface)
{
	int bytes = 64 << 20;
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETHERTYPE) };

	packets = socket(AF_PACKET, SOCK_RAW, 0);
	at.sll_ifindex = if_nametoindex(iface);
	if (packets < 0 || at.sll_ifindex == 0 || bind(packets, (void *)&at, sizeof at))
		die(iface);
	setsockopt(packets, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
	setsockopt(packets, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
}

/* send_all carries packets from the device to the segment. */
static void *send_all(void *unused)
{
	static char packet[LONGEST];
	static struct head heads[PIECES];
	static struct iovec parts[PIECES][2];
	static struct mmsghdr frames[PIECES];

	for (;;) {
		int n = read(tun, packet, sizeof packet), k, sent;

		if (n < 0)
			die("read from the device");
		for (k = 0; k * piece < n; k++) {
			int length = n - k * piece < piece ? n - k * piece : piece;

			heads[k] = (struct head){ .type = htons(ETHERTYPE), .length = n, .from = k * piece };
			memset(heads[k].dst, 0xff, 6);
			parts[k][0] = (struct iovec){ &heads[k], sizeof heads[k] };
			parts[k][1] = (struct iovec){ packet + k * piece, length };
			frames[k].msg_hdr = (struct msghdr){ .msg_iov = parts[k], .msg_iovlen = 2 };
		}
		for (sent = 0; sent < k;) {
			int m = sendmmsg(packets, frames + sent, k - sent, 0);

			if (m < 0 && errno != ENOBUFS)
				die("send");
			sent += m > 0 ? m : 0;
		}
	}
	return unused;
}

/* receive_all carries packets from the segment to the device. */
static void receive_all(void)
{
	char *memory = malloc((size_t)SLOTS * piece);
	static struct head heads[SLOTS];
	static struct iovec parts[SLOTS][2], packet[PIECES];
	static struct mmsghdr frames[SLOTS];
	int next = 0, pieces = 0, have = 0;

	for (int i = 0; i < SLOTS; i++) {
		parts[i][0] = (struct iovec){ &heads[i], sizeof heads[i] };
		parts[i][1] = (struct iovec){ memory + (size_t)i * piece, piece };
		frames[i].msg_hdr = (struct msghdr){ .msg_iov = parts[i], .msg_iovlen = 2 };
	}
	for (;;) {
		int room = SLOTS - next < BATCH ? SLOTS - next : BATCH;
		int n = recvmmsg(packets, frames + next, room, MSG_WAITFORONE, NULL);

		if (n < 0)
			die("receive");
		for (int i = next; i < next + n; i++) {
			int length = frames[i].msg_len - sizeof(struct head);

			if (heads[i].from == 0)
				pieces = have = 0;
			if ((int)heads[i].from != have || pieces == PIECES)
				continue;
			packet[pieces++] = (struct iovec){ parts[i][1].iov_base, length };
			have += length;
			if (have == (int)heads[i].length && writev(tun, packet, pieces) < 0 && errno != EINVAL && errno != EIO)
				die("write to the device");
		}
		next = (next + n) % SLOTS;
	}
}

int main(int argc, char **argv)
{
	pthread_t sender;

	if (argc != 4)
		return 2;
	piece = atoi(argv[3]) - (sizeof(struct head) - 14);
	make_tun(argv[1]);
	open_packets(argv[2]);
	if (puts("ready") < 0 || fflush(stdout) || pthread_create(&sender, NULL, send_all, NULL))
		die("start");
	receive_all();
}
