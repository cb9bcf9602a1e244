/*
 * Decodes values of struct everything from the standard input and encodes each again to
 * the standard output. Before each message stands its length, four bytes, the highest
 * first.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <rpc/rpc.h>
#include "all.h"

static char in[1 << 20], out[1 << 20];

int main(void)
{
	uint32_t n;

	while (fread(&n, sizeof n, 1, stdin) == 1) {
		XDR xdrs;
		everything v;

		n = ntohl(n);
		if (n > sizeof in || fread(in, 1, n, stdin) != n) {
			fprintf(stderr, "a message is cut off\n");
			return 1;
		}
		memset(&v, 0, sizeof v);
		xdrmem_create(&xdrs, in, n, XDR_DECODE);
		if (!xdr_everything(&xdrs, &v) || xdr_getpos(&xdrs) != n) {
			fprintf(stderr, "decoded %u bytes of %u\n", xdr_getpos(&xdrs), n);
			return 1;
		}
		xdrmem_create(&xdrs, out, sizeof out, XDR_ENCODE);
		if (!xdr_everything(&xdrs, &v)) {
			fprintf(stderr, "cannot encode\n");
			return 1;
		}
		xdr_free((xdrproc_t)xdr_everything, (char *)&v);
		n = xdr_getpos(&xdrs);
		uint32_t head = htonl(n);
		fwrite(&head, sizeof head, 1, stdout);
		fwrite(out, 1, n, stdout);
		fflush(stdout);
	}
	return 0;
}
