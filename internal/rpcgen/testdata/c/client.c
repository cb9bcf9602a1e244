/*
 * Decodes values of struct everything from the standard input, sends each to the server at
 * a port of this host by tcp or udp, and encodes the result to the standard output. Before
 * each message stands its length, four bytes, the highest first.
 *
 *	client tcp|udp PORT
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <rpc/rpc.h>
#include "all.h"

static char in[1 << 20], out[1 << 20];

int main(int argc, char **argv)
{
	struct sockaddr_in server = { .sin_family = AF_INET };
	struct timeval patience = { .tv_sec = 60 }, retry = { .tv_sec = 5 };
	int fd = RPC_ANYSOCK;
	CLIENT *client;
	uint32_t n;

	if (argc != 3)
		return 2;
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server.sin_port = htons(atoi(argv[2]));
	if (strcmp(argv[1], "tcp") == 0)
		client = clnttcp_create(&server, ALL_PROG, ALL_V1, &fd, 0, 0);
	else
		client = clntudp_create(&server, ALL_PROG, ALL_V1, retry, &fd);
	if (client == NULL) {
		clnt_pcreateerror("client");
		return 1;
	}
	clnt_control(client, CLSET_TIMEOUT, (char *)&patience);
	if (all_null_1(client) == NULL) {
		clnt_perror(client, "null");
		return 1;
	}
	while (fread(&n, sizeof n, 1, stdin) == 1) {
		XDR xdrs;
		everything v, *result;

		n = ntohl(n);
		if (n > sizeof in || fread(in, 1, n, stdin) != n)
			return 1;
		memset(&v, 0, sizeof v);
		xdrmem_create(&xdrs, in, n, XDR_DECODE);
		if (!xdr_everything(&xdrs, &v)) {
			fprintf(stderr, "cannot decode\n");
			return 1;
		}
		result = echo_1(v, client);
		if (result == NULL) {
			clnt_perror(client, "echo");
			return 1;
		}
		xdrmem_create(&xdrs, out, sizeof out, XDR_ENCODE);
		if (!xdr_everything(&xdrs, result)) {
			fprintf(stderr, "cannot encode\n");
			return 1;
		}
		clnt_freeres(client, (xdrproc_t)xdr_everything, (caddr_t)result);
		xdr_free((xdrproc_t)xdr_everything, (char *)&v);
		n = xdr_getpos(&xdrs);
		uint32_t head = htonl(n);
		fwrite(&head, sizeof head, 1, stdout);
		fwrite(out, 1, n, stdout);
		fflush(stdout);
	}
	clnt_destroy(client);
	return 0;
}
