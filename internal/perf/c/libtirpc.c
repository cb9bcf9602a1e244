/*
 * Both ends of remote procedures by libtirpc over TCP, for bobnet perf.
 *
 *	server ADDRESS           prints its port, and answers until its standard input ends
 *	client ADDRESS PORT SIZE reads numbers of calls from its standard input, a line each, makes
 *	                         so many, and writes the nanoseconds that each took, 8 bytes of
 *	                         this machine's order each
 *
 * The calls are of the null procedure where SIZE is 0, else of one that returns its argument.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <rpc/rpc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM 0x20000b0b
#define VERSION 1
#define ECHO    1
#define MOST    (64u << 20)

struct data {
	char *bytes;
	u_int n;
};

static bool_t xdr_data(XDR *xdrs, struct data *d)
{
	return xdr_bytes(xdrs, &d->bytes, &d->n, MOST);
}

static struct data room;

static void dispatch(struct svc_req *req, SVCXPRT *xprt)
{
	switch (req->rq_proc) {
	case NULLPROC:
		svc_sendreply(xprt, (xdrproc_t)xdr_void, NULL);
		break;
	case ECHO:
		if (!svc_getargs(xprt, (xdrproc_t)xdr_data, (char *)&room))
			svcerr_decode(xprt);
		else
			svc_sendreply(xprt, (xdrproc_t)xdr_data, (char *)&room);
		break;
	default:
		svcerr_noproc(xprt);
	}
}

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static int serve(struct sockaddr_in *at)
{
	socklen_t size = sizeof *at;
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	SVCXPRT *xprt;

	/* The connections inherit the option. */
	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
	    bind(fd, (struct sockaddr *)at, size) != 0 || listen(fd, 8) != 0 ||
	    getsockname(fd, (struct sockaddr *)at, &size) != 0)
		return fail("a socket for calls");
	xprt = svctcp_create(fd, 0, 0);
	if (xprt == NULL || !svc_register(xprt, PROGRAM, VERSION, dispatch, 0)) {
		fprintf(stderr, "libtirpc makes no server\n");
		return 1;
	}
	printf("%d\n", ntohs(at->sin_port));
	fflush(stdout);
	for (;;) {
		fd_set ready = svc_fdset;

		FD_SET(STDIN_FILENO, &ready);
		if (select(FD_SETSIZE, &ready, NULL, NULL, NULL) < 0)
			return fail("select");
		if (FD_ISSET(STDIN_FILENO, &ready))
			return 0;
		svc_getreqset(&ready);
	}
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int call(struct sockaddr_in *server, u_int size)
{
	struct timeval patience = { .tv_sec = 5 };
	struct data arg = { calloc(1, MOST), size };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	CLIENT *client;
	long n;

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
	    connect(fd, (struct sockaddr *)server, sizeof *server) != 0)
		return fail("a connection");
	client = clnttcp_create(server, PROGRAM, VERSION, &fd, 0, 0);
	if (client == NULL) {
		clnt_pcreateerror("libtirpc");
		return 1;
	}
	while (scanf("%ld", &n) == 1) {
		int64_t last = now();

		for (; n > 0; n--) {
			enum clnt_stat done;
			int64_t end, took;

			if (size == 0)
				done = clnt_call(client, NULLPROC, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, patience);
			else
				done = clnt_call(client, ECHO, (xdrproc_t)xdr_data, (char *)&arg, (xdrproc_t)xdr_data, (char *)&room, patience);
			if (done != RPC_SUCCESS || (size != 0 && room.n != size)) {
				clnt_perror(client, "libtirpc");
				return 1;
			}
			end = now();
			took = end - last;
			last = end;
			fwrite(&took, sizeof took, 1, stdout);
		}
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET };

	signal(SIGPIPE, SIG_IGN); /* the call fails instead, and is said to */
	room.bytes = calloc(1, MOST);
	if (argc < 3 || room.bytes == NULL || inet_pton(AF_INET, argv[2], &at.sin_addr) != 1)
		return 2;
	if (strcmp(argv[1], "server") == 0)
		return serve(&at);
	if (argc != 5)
		return 2;
	at.sin_port = htons(atoi(argv[3]));
	return call(&at, atoi(argv[4]));
}
