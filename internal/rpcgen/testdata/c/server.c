/*
 * A server of all.x, at TCP and UDP ports that it prints. It is not known to rpcbind, and
 * ends after some minutes, should nobody end it before.
 */
#include <stdio.h>
#include <unistd.h>
#include <rpc/rpc.h>
#include "all.h"

extern void all_prog_1(struct svc_req *, SVCXPRT *);

void *all_null_1_svc(struct svc_req *req)
{
	static char nothing;

	return &nothing;
}

everything *echo_1_svc(everything arg, struct svc_req *req)
{
	static everything result;

	result = arg;
	return &result;
}

int main(void)
{
	SVCXPRT *tcp = svctcp_create(RPC_ANYSOCK, 0, 0);
	SVCXPRT *udp = svcudp_create(RPC_ANYSOCK);

	alarm(600);
	if (tcp == NULL || udp == NULL ||
	    !svc_register(tcp, ALL_PROG, ALL_V1, all_prog_1, 0) ||
	    !svc_register(udp, ALL_PROG, ALL_V1, all_prog_1, 0)) {
		fprintf(stderr, "no server\n");
		return 1;
	}
	printf("%d %d\n", tcp->xp_port, udp->xp_port);
	fflush(stdout);
	svc_run();
	return 1;
}
