/** What jobs and machines really use, over time. */
export interface UsageOverTime {
  interval_seconds: number;
  series: { worker?: number | null; points: UsagePoint[] }[];
}

export interface UsagePoint {
  time: string;
  /** In cores. */
  cpu: number;
  /** In bytes. */
  memory: number;
  gpu?: number | null;
  gpu_memory?: number | null;
}
