/*
 * The collectives of MPI, timed as bobnet perf --collectives times those of mplite.
 *
 *	mpiexec -n RANKS collectives MICROSECONDS NAMES SIZES
 *
 * NAMES and SIZES are separated by commas. Rank 0 prints one JSON object for each collective, size
 * and mode, in the order in which the Go program prints them.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROWTH    4    /* of the number of calls, until they fill half a sample */
#define CALLS_MAX 4096 /* in a sample */

static int rank, ranks;
static double *in, *out; /* a part for each rank */
static int *counts, *displs;

static void barrier(int n) { MPI_Barrier(MPI_COMM_WORLD); }
static void bcast(int n) { MPI_Bcast(in, n, MPI_DOUBLE, 0, MPI_COMM_WORLD); }
static void reduce(int n) { MPI_Reduce(in, out, n, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); }
static void allreduce(int n) { MPI_Allreduce(in, out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void gather(int n) { MPI_Gather(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 0, MPI_COMM_WORLD); }
static void scatter(int n) { MPI_Scatter(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 0, MPI_COMM_WORLD); }
static void allgather(int n) { MPI_Allgather(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, MPI_COMM_WORLD); }
static void alltoall(int n) { MPI_Alltoall(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, MPI_COMM_WORLD); }
static void reduce_scatter(int n) { MPI_Reduce_scatter(in, out, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void scan(int n) { MPI_Scan(in, out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void exscan(int n) { MPI_Exscan(in, out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }

static void gatherv(int n)
{
	MPI_Gatherv(in, n, MPI_DOUBLE, out, counts, displs, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void scatterv(int n)
{
	MPI_Scatterv(in, counts, displs, MPI_DOUBLE, out, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void allgatherv(int n)
{
	MPI_Allgatherv(in, n, MPI_DOUBLE, out, counts, displs, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void alltoallv(int n)
{
	MPI_Alltoallv(in, counts, displs, MPI_DOUBLE, out, counts, displs, MPI_DOUBLE, MPI_COMM_WORLD);
}

static const struct collective {
	const char *name;
	void (*call)(int n);
} collectives[] = {
	{"barrier", barrier}, {"bcast", bcast}, {"reduce", reduce}, {"allreduce", allreduce}, {"gather", gather},
	{"gatherv", gatherv}, {"scatter", scatter}, {"scatterv", scatterv}, {"allgather", allgather},
	{"allgatherv", allgatherv}, {"alltoall", alltoall}, {"alltoallv", alltoallv},
	{"reduce_scatter", reduce_scatter}, {"scan", scan}, {"exscan", exscan}, {NULL, NULL},
};

/* longest returns the largest of the ranks' values. */
static double longest(double mine)
{
	double all;
	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

/* run makes some calls, and returns the seconds that one takes. */
static double run(const struct collective *c, int n, int calls, int apart)
{
	double took = 0, start = MPI_Wtime();
	int i;
	if (!apart) {
		for (i = 0; i < calls; i++)
			c->call(n);
		took = MPI_Wtime() - start;
	} else {
		for (i = 0; i < calls; i++) {
			MPI_Barrier(MPI_COMM_WORLD);
			start = MPI_Wtime();
			c->call(n);
			took += MPI_Wtime() - start;
		}
	}
	return longest(took / calls);
}

static void measure(const struct collective *c, int size, double sample)
{
	int i, apart, n = size / (int)sizeof(double);
	for (i = 0; i < ranks; i++) {
		counts[i] = n;
		displs[i] = i * n;
	}
	for (apart = 0; apart < 2; apart++) {
		double each;
		int calls = 1;
		run(c, n, 1, apart); /* not measured */
		while ((each = run(c, n, calls, apart)) * calls < sample / 2 && calls < CALLS_MAX)
			calls *= GROWTH;
		if (rank == 0)
			printf("{\"collective\":\"%s\",\"mode\":\"%s\",\"size\":%d,\"us\":%.3f,\"calls\":%d}\n",
			       c->name, apart ? "apart" : "loop", size, each * 1e6, calls);
	}
}

int main(int argc, char **argv)
{
	char *name, *names, *size, *text, *outer, *inner;
	int i, most = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 4) {
		fprintf(stderr, "usage: collectives MICROSECONDS NAMES SIZES\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	text = strdup(argv[3]);
	for (size = strtok(text, ","); size; size = strtok(NULL, ","))
		if (atoi(size) > most)
			most = atoi(size);
	in = calloc(ranks, most + sizeof(double));
	out = calloc(ranks, most + sizeof(double));
	counts = calloc(ranks, sizeof(int));
	displs = calloc(ranks, sizeof(int));
	names = strdup(argv[2]);
	if (!in || !out || !counts || !displs || !names) {
		fprintf(stderr, "collectives: out of memory\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (name = strtok_r(names, ",", &outer); name; name = strtok_r(NULL, ",", &outer)) {
		for (i = 0; collectives[i].name && strcmp(collectives[i].name, name); i++)
			;
		if (!collectives[i].name) {
			fprintf(stderr, "collectives: no collective %s\n", name);
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
		if (strcmp(name, "barrier") == 0) {
			measure(&collectives[i], 0, atof(argv[1]) / 1e6);
			continue;
		}
		text = strdup(argv[3]);
		for (size = strtok_r(text, ",", &inner); size; size = strtok_r(NULL, ",", &inner))
			measure(&collectives[i], atoi(size), atof(argv[1]) / 1e6);
		free(text);
	}
	MPI_Finalize();
	return 0;
}
