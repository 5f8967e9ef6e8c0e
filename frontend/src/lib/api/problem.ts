/** What went wrong with a request, whatever form it came in. */

export interface Problem {
  /** null: the server never answered. */
  readonly status: number | null;
  readonly title: string;
  readonly detail: string;
  readonly errors: readonly { readonly path: string; readonly message: string }[];
}

interface Answer<Data> {
  readonly data?: Data | undefined;
  readonly error?: unknown;
  readonly response: Response;
}

export type Outcome<Data> =
  | { readonly ok: true; readonly data: Data }
  | { readonly ok: false; readonly problem: Problem };

/** Waits for a call of the client and gives its data or the problem; never throws. */
export async function outcomeOf<Data>(call: Promise<Answer<Data>>): Promise<Outcome<Data>> {
  let answer: Answer<Data>;
  try {
    answer = await call;
  } catch {
    return { ok: false, problem: { status: null, title: '', detail: '', errors: [] } };
  }
  if (answer.response.ok) return { ok: true, data: answer.data as Data };
  return { ok: false, problem: toProblem(answer.response.status, answer.error) };
}

/** A body that is no problem document (a proxy's page, say) leaves the status alone to speak. */
export function toProblem(status: number, body: unknown): Problem {
  const fields = typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
  const errors = Array.isArray(fields.errors) ? fields.errors : [];
  return {
    status,
    title: typeof fields.title === 'string' ? fields.title : '',
    detail: typeof fields.detail === 'string' ? fields.detail : '',
    errors: errors.filter(isFieldProblem),
  };
}

function isFieldProblem(value: unknown): value is { path: string; message: string } {
  if (typeof value !== 'object' || value === null) return false;
  const { path, message } = value as Record<string, unknown>;
  return typeof path === 'string' && typeof message === 'string';
}
