/* What jemalloc reads at its start. Memory that is free for a minute goes back to the system, by default for ten
   seconds: a request of 1,000 candidates takes and frees megabytes, and half of its page faults were for memory that
   had just been given back. */
const char* malloc_conf = "dirty_decay_ms:60000";
