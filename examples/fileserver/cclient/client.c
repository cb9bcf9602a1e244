/*
 * Copies what is below a directory of a file server into one of this machine.
 * What files.h declares, rpcgen makes of ../internal/files/files.x.
 *
 *	client ADDRESS PORT PATH DIRECTORY
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rpc/rpc.h>
#include "files.h"

static void fail(const char *what, const char *path, const char *why)
{
	fprintf(stderr, "client: %s %s: %s\n", what, path, why);
	exit(1);
}

/* check ends the program unless a call was carried out, and went well. */
static void check(CLIENT *client, const char *what, const char *path, const void *result, file_status status)
{
	char why[32];

	if (result == NULL)
		fail(what, path, clnt_sperror(client, "the call failed"));
	if (status != FILE_OK) {
		snprintf(why, sizeof why, "status %d", status);
		fail(what, path, why);
	}
}

/* join makes the path of a file in a directory. */
static char *join(const char *dir, const char *name)
{
	char *path = malloc(strlen(dir) + strlen(name) + 2);

	if (path == NULL)
		fail("remember", name, "no memory");
	if (strcmp(dir, ".") == 0)
		strcpy(path, name);
	else
		sprintf(path, "%s/%s", dir, name);
	return path;
}

/* copy_file reads a file to its end. */
static void copy_file(CLIENT *client, char *from, const char *to)
{
	read_args args = { .path = from, .offset = 0, .count = FILE_MAX_DATA };
	int fd = open(to, O_WRONLY | O_CREAT | O_EXCL, 0644);
	bool_t end = FALSE;

	if (fd < 0)
		fail("create", to, strerror(errno));
	while (!end) {
		read_result *res = read_1(args, client);
		check(client, "read", from, res, res ? res->status : FILE_FAILED);
		char *data = res->read_result_u.chunk.data.data_val;
		u_int left = res->read_result_u.chunk.data.data_len;
		end = res->read_result_u.chunk.end;
		if (left == 0 && !end)
			fail("read", from, "it does not go on");
		args.offset += left;
		while (left > 0) {
			ssize_t n = write(fd, data, left);
			if (n < 0)
				fail("write", to, strerror(errno));
			data += n;
			left -= n;
		}
		clnt_freeres(client, (xdrproc_t)xdr_read_result, (caddr_t)res);
	}
	if (close(fd) < 0)
		fail("close", to, strerror(errno));
}

static void copy_directory(CLIENT *client, char *from, const char *to)
{
	readdir_args args = { .path = from, .after = "" };
	bool_t end = FALSE;

	if (mkdir(to, 0755) < 0 && errno != EEXIST)
		fail("mkdir", to, strerror(errno));
	while (!end) {
		readdir_result *res = readdir_1(args, client);
		check(client, "list", from, res, res ? res->status : FILE_FAILED);
		/* The stub decodes the next result into the same memory, so this one is kept. */
		readdir_page page = res->readdir_result_u.page;
		memset(res, 0, sizeof *res);
		end = page.end;
		args.after = "";
		for (file_entry *e = page.first; e != NULL; e = e->next) {
			if (strchr(e->name, '/') || !strcmp(e->name, ".") || !strcmp(e->name, ".."))
				fail("list", from, "a name is none");
			char *inner = join(from, e->name), *target = malloc(strlen(to) + strlen(e->name) + 2);
			if (target == NULL)
				fail("remember", inner, "no memory");
			sprintf(target, "%s/%s", to, e->name);
			if (e->kind == FILE_DIRECTORY)
				copy_directory(client, inner, target);
			else if (e->kind == FILE_REGULAR)
				copy_file(client, inner, target);
			free(inner);
			free(target);
			if (e->next == NULL)
				args.after = strdup(e->name);
		}
		if (!end && page.first == NULL)
			fail("list", from, "a page is empty");
		xdr_free((xdrproc_t)xdr_readdir_page, (char *)&page);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in server = { .sin_family = AF_INET };
	struct timeval patience = { .tv_sec = 60 };
	int fd = RPC_ANYSOCK;

	if (argc != 5 || inet_pton(AF_INET, argv[1], &server.sin_addr) != 1) {
		fprintf(stderr, "use: client ADDRESS PORT PATH DIRECTORY\n");
		return 2;
	}
	server.sin_port = htons(atoi(argv[2]));
	CLIENT *client = clnttcp_create(&server, FILE_PROG, FILE_V1, &fd, 0, 0);
	if (client == NULL)
		fail("connect to", argv[1], clnt_spcreateerror("no client"));
	clnt_control(client, CLSET_TIMEOUT, (char *)&patience);
	copy_directory(client, argv[3], argv[4]);
	clnt_destroy(client);
	return 0;
}
